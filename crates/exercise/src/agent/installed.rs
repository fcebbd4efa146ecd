//! The tools of this host: where each program is, its version, and what this version can do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::limits::VERSION_WITHIN;
use super::process::{Invocation, Launcher, OutputForm, ProcessOutput, find_program};
use super::tools::{LimitOption, TOOLS, ToolTemplate, find};
use super::words::AgentTool;

/// A tool that this agent may run.
pub(super) struct InstalledTool {
    /// What the tool can do.
    pub template: &'static ToolTemplate,
    /// Its program; or why there is none.
    pub program: Result<PathBuf, String>,
    /// The first line that it prints when it is asked for its version.
    version: Option<String>,
    /// Whether this version can limit its rate.
    pub can_limit: bool,
}

/// The tools that this agent may run.
pub(super) struct InstalledTools(Vec<Arc<InstalledTool>>);

impl InstalledTools {
    /// Looks for the allowed tools, and asks each for its version. `longhaul` is the program that stands for the tool of this name.
    ///
    /// # Errors
    /// The name of a tool that is not known.
    pub fn find(
        allowed: Option<&[String]>,
        longhaul: Option<&Path>,
        launcher: &Launcher,
    ) -> Result<InstalledTools, String> {
        let mut templates: Vec<&'static ToolTemplate> = Vec::new();
        match allowed {
            None => templates.extend(&TOOLS),
            Some(names) => {
                for name in names {
                    let template = find(name).ok_or_else(|| name.clone())?;
                    if !templates.iter().any(|other| other.name == template.name) {
                        templates.push(template);
                    }
                }
            }
        }
        // All at once: a tool in Python may take a second to print its version.
        let tools = thread::scope(|scope| {
            let look = |template| (template, scope.spawn(move || InstalledTool::find(template, longhaul, launcher)));
            let looking: Vec<_> = templates.into_iter().map(look).collect();
            let found = looking.into_iter().map(|(template, thread)| {
                Arc::new(
                    thread
                        .join()
                        .unwrap_or_else(|_| InstalledTool::missing(template, "it could not be looked for".into())),
                )
            });
            found.collect()
        });
        Ok(InstalledTools(tools))
    }

    /// The tool of this name, if this agent may run it.
    pub fn get(&self, name: &str) -> Option<&Arc<InstalledTool>> {
        self.0.iter().find(|tool| tool.template.name == name)
    }

    /// The names of all of them.
    pub fn names(&self) -> String {
        self.0.iter().map(|tool| tool.template.name).collect::<Vec<_>>().join(", ")
    }

    /// All of them, for a client.
    pub fn describe(&self) -> Vec<AgentTool> {
        self.0.iter().map(|tool| tool.describe()).collect()
    }
}

impl InstalledTool {
    fn missing(template: &'static ToolTemplate, why: String) -> InstalledTool {
        InstalledTool { template, program: Err(why), version: None, can_limit: false }
    }

    fn find(template: &'static ToolTemplate, longhaul: Option<&Path>, launcher: &Launcher) -> InstalledTool {
        let missing = |why: String| InstalledTool::missing(template, why);
        let path = match template.output {
            OutputForm::Longhaul => longhaul.map(Path::to_owned),
            _ => find_program(template.program),
        };
        let Some(path) = path else { return missing(format!("there is no {} in PATH", template.program)) };
        let ask = |argument: &str| {
            let invocation = Invocation {
                program: path.clone(),
                arguments: vec![argument.to_owned()],
                set: Vec::new(),
                unset: Vec::new(),
                stdin: None,
                output: OutputForm::Bytes,
            };
            launcher.ask(&invocation, VERSION_WITHIN)
        };
        let version = match ask(template.version_argument) {
            Ok(output) => {
                first_line(&output.stdout).or_else(|| first_line(output.stderr.as_bytes())).unwrap_or_default()
            }
            Err(why) => return missing(format!("{} {}: {why}", path.display(), template.version_argument)),
        };
        let can_limit = match template.limit {
            LimitOption::Always => true,
            LimitOption::Never => false,
            LimitOption::IfHelpNames(option) => {
                let names = |help: ProcessOutput| {
                    help.stderr.contains(option) || String::from_utf8_lossy(&help.stdout).contains(option)
                };
                ask("--help").is_ok_and(names)
            }
        };
        InstalledTool { template, program: Ok(path), version: Some(version), can_limit }
    }

    fn describe(&self) -> AgentTool {
        AgentTool {
            tool: self.template.name.to_owned(),
            version: self.version.clone(),
            missing: self.program.as_ref().err().cloned(),
            can_limit: self.can_limit,
            streams_max: self.template.streams_max,
            can_set_window: self.template.can_set_window,
        }
    }

    /// A tool as if it were installed, for tests.
    #[cfg(test)]
    pub fn pretended(name: &str, can_limit: bool) -> Arc<InstalledTool> {
        let template = find(name).unwrap();
        Arc::new(InstalledTool { template, program: Ok("/usr/bin/true".into()), version: None, can_limit })
    }
}

/// The first line that is not empty.
fn first_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(|line| line.chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_with_its_version_or_with_the_reason_why_not() {
        let launcher = Launcher::new(Path::new("/"));
        let allowed = ["curl", "longhaul", "curl"].map(str::to_owned);
        let tools = InstalledTools::find(Some(&allowed), Some(Path::new("/no/longhaul")), &launcher).unwrap();
        let all = tools.describe();
        assert_eq!(all.len(), 2, "a tool that is allowed twice is one tool");
        assert!(all[0].version.as_ref().unwrap().starts_with("curl ") && all[0].missing.is_none(), "{:?}", all[0]);
        assert!(all[1].missing.as_ref().unwrap().contains("/no/longhaul --version"), "{:?}", all[1]);
        assert!(tools.get("curl").is_some() && tools.get("xrdcp").is_none());
        assert_eq!(tools.names(), "curl, longhaul");
        let none = InstalledTools::find(Some(&["longhaul".to_owned()]), None, &launcher).unwrap();
        assert_eq!(none.describe()[0].missing.as_deref(), Some("there is no longhaul in PATH"));
        let unknown = InstalledTools::find(Some(&["sh".to_owned()]), None, &launcher);
        assert_eq!(unknown.err(), Some("sh".to_owned()));
    }

    #[test]
    fn the_first_line_with_text_is_the_version() {
        assert_eq!(first_line(b"\n  v5.5.3 \nx").as_deref(), Some("v5.5.3"));
        assert_eq!(first_line(b" \n"), None);
    }
}
