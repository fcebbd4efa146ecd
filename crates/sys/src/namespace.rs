//! Network, mount and host-name namespaces: made by a thread, held by descriptors, entered by threads and commands.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_change, move_mount,
    open_tree,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The namespaces of an emulated host. They exist as long as a descriptor of them is open or a process is in them.
#[derive(Debug)]
pub struct Namespaces {
    net: File,
    mount: File,
    uts: File,
}

/// The kinds of namespaces, by their names below `/proc/PID/ns`.
const KINDS: [&str; 3] = ["net", "mnt", "uts"];

impl Namespaces {
    /// Makes new namespaces and moves this thread into them for the rest of its life. Later mounts of the host still appear in them.
    ///
    /// # Errors
    /// No permission (CAP_SYS_ADMIN).
    pub fn make() -> io::Result<Namespaces> {
        // SAFETY: this thread stops sharing its file system view, network and host name with the others. It still shares memory and
        // descriptors, which the warning of `unshare_unsafe` is about.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWUTS)? };
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        let [net, mount, uts] = KINDS.map(|kind| File::open(format!("/proc/thread-self/ns/{kind}")));
        Ok(Namespaces { net: net?, mount: mount?, uts: uts? })
    }

    /// The namespaces that a process holds open under these descriptors.
    ///
    /// # Errors
    /// The process has ended, or this user may not open its descriptors.
    pub fn of_process(pid: u32, descriptors: [RawFd; 3]) -> io::Result<Namespaces> {
        let [net, mount, uts] = descriptors.map(|number| File::open(format!("/proc/{pid}/fd/{number}")));
        Ok(Namespaces { net: net?, mount: mount?, uts: uts? })
    }

    /// The numbers of the descriptors, in the order of [`Namespaces::of_process`].
    pub fn descriptors(&self) -> [RawFd; 3] {
        [self.net.as_raw_fd(), self.mount.as_raw_fd(), self.uts.as_raw_fd()]
    }

    /// The inode number of the network namespace, as in the link `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// The descriptor cannot be read.
    pub fn network_number(&self) -> io::Result<u64> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.net.metadata()?.ino())
    }

    /// Moves this thread into the network: sockets that it opens from now on belong to that network, and stay in it.
    ///
    /// # Errors
    /// No permission (CAP_SYS_ADMIN).
    pub fn enter_network(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.net.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Makes a command run in these namespaces, in the caller's directory, and in a control group if its open `cgroup.procs` is given.
    ///
    /// # Errors
    /// The caller's directory does not exist any more, or its path has a zero byte.
    pub fn run_in(self: &Arc<Self>, command: &mut Command, group: Option<File>) -> io::Result<()> {
        let directory = match command.get_current_dir() {
            Some(directory) => directory.to_owned(),
            None => std::env::current_dir()?,
        };
        let directory = CString::new(directory.as_os_str().as_bytes())?;
        let namespaces = Arc::clone(self);
        let enter = move || {
            if let Some(mut group) = group.as_ref() {
                group.write_all(b"0")?;
            }
            move_into_link_name_space(namespaces.mount.as_fd(), Some(LinkNameSpaceType::Mount))?;
            // The root is now that of the new namespace; the caller's directory exists in it too, unless it was deleted.
            let _ = rustix::process::chdir(directory.as_c_str());
            move_into_link_name_space(namespaces.uts.as_fd(), Some(LinkNameSpaceType::HostNameAndNISDomainName))?;
            namespaces.enter_network()
        };
        // SAFETY: between fork and exec the closure makes system calls on descriptors and strings that were made
        // before; it takes no lock and allocates nothing.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

/// Sets the host name in this thread's namespace.
///
/// # Errors
/// No permission (CAP_SYS_ADMIN), or the name is too long.
pub fn set_host_name(name: &str) -> io::Result<()> {
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

/// Mounts the file `with` over the file `over`, in this thread's mount namespace.
///
/// # Errors
/// No permission (CAP_SYS_ADMIN), or one of the files does not exist.
pub fn bind_mount(with: &Path, over: &Path) -> io::Result<()> {
    Ok(mount_bind(with, over)?)
}

/// Mounts a `/sys` that shows the devices of this thread's network. Control groups, which belong to no network, keep their place.
///
/// # Errors
/// No permission (CAP_SYS_ADMIN).
pub fn mount_sysfs() -> io::Result<()> {
    const GROUPS: &str = "/sys/fs/cgroup";
    let copy = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let groups = open_tree(CWD, GROUPS, copy);
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?;
    // The host may have no control groups.
    if let Ok(groups) = groups {
        let _ = move_mount(groups, "", CWD, GROUPS, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
    }
    Ok(())
}
