//! An HTTP file server: `cargo run -p examples --bin files -- DIRECTORY`, then `curl http://ADDRESS/NAME`.

#![allow(clippy::print_stdout, reason = "a program prints its address")]

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use serve::{Exchange, Length, Protocols, Rejection, Server, Service, Timeouts};
use store::Store;
use store::posix::{Links, Posix};
use web::{Headers, Response};

struct Files(Posix);

impl Files {
    fn send(&self, exchange: &mut dyn Exchange) -> Result<()> {
        let path = web::target::parse(&exchange.request().target)?.path;
        let size = self.0.stat(&path)?.meta.size;
        let file = self.0.open(&path)?;
        exchange.begin(Response::new(200), Length::Known(size))?;
        exchange.send(&*file, 0, size, &mut |_| {})?;
        Ok(exchange.end(&Headers::new())?)
    }
}

impl Service for Files {
    fn answer(&self, exchange: &mut dyn Exchange) {
        if self.send(exchange).is_err() && !exchange.has_begun() {
            // The response fails only if the client has closed the connection.
            let _ = exchange.begin(Response::new(404), Length::Known(0)).and_then(|()| exchange.end(&Headers::new()));
        }
    }

    fn refused(&self, refusal: &Rejection<'_>) {
        println!("{refusal:?}");
    }
}

impl Protocols for Files {}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from).context("no DIRECTORY is given")?;
    let files = Arc::new(Files(Posix::open(&directory, Links::Inside)?));
    let server = Server::new(std::net::TcpListener::bind(("127.0.0.1", 0))?, files, None, Timeouts::default())?;
    println!("http://{}/", server.address()?);
    Ok(server.run()?)
}
