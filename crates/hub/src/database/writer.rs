//! The one thread that writes: it takes the writes that wait, up to a bound, and commits them in one transaction.
//!
//! Each change has a savepoint of its own, and all submissions share one, so that a write that fails does not undo another. Callers are
//! answered after the commit, so that an answer stays true.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Connection, Executor};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::submissions::{self, NewJob, QueueIds, SubmitResult};
use super::{DatabaseError, Kind, Result};
use crate::limits;

/// A future that borrows the connection of the transaction.
type Boxed<'c, T> = Pin<Box<dyn Future<Output = T> + Send + 'c>>;
/// Answers a caller, once it is known whether the transaction was committed.
type Answer = Box<dyn FnOnce(std::result::Result<(), String>) + Send>;
type Statement = Box<dyn for<'c> FnOnce(&'c mut AnyConnection) -> Boxed<'c, (Answer, bool)> + Send>;

/// Waits for the lock that all hubs on a PostgreSQL database take for a transaction that writes. No other program uses this number.
const ONE_WRITER: &str = "SELECT pg_advisory_xact_lock(7411)";

/// How long the thread waits for further writes when several callers write at the same time. A transaction takes four times as long.
const GATHER_FOR: Duration = Duration::from_micros(300);
/// The page cache of the writer's connection, 32 MB: a row goes into seven tables and indexes.
const WRITER_CACHE: &str = "PRAGMA cache_size = -32000";

enum Write {
    Submit(Vec<NewJob>, oneshot::Sender<Result<Vec<SubmitResult>>>),
    Change(Statement),
}

/// Sends writes to the thread that writes.
#[derive(Clone, Debug)]
pub struct Writer {
    writes: mpsc::Sender<Write>,
}

/// Waits for the end of the thread: it ends when all its [`Writer`]s have been dropped and all their writes are committed.
#[derive(Debug)]
pub struct WriterEnd(oneshot::Receiver<()>);

impl WriterEnd {
    /// Waits until everything has been written. Returns early only if the thread panicked.
    pub async fn wait(&mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Writer {
    pub(super) fn start(pool: AnyPool, kind: Kind) -> std::io::Result<(Writer, WriterEnd)> {
        let (writes, waiting) = mpsc::channel(limits::WRITES_WAITING_MAX);
        let (ended, end) = oneshot::channel();
        let runtime = Handle::current();
        // The writer has its own thread: the answer to a statement wakes a thread directly, whereas a task would be woken by the runtime's
        // poller.
        let thread = std::thread::Builder::new().name("database".into());
        thread.spawn(move || {
            runtime.block_on(run(pool, kind, waiting));
            drop(ended);
        })?;
        Ok((Writer { writes }, WriterEnd(end)))
    }

    /// Submits jobs; returns the result of each, in their order.
    ///
    /// # Errors
    /// The database cannot be written: none of the jobs was stored.
    pub async fn submit(&self, jobs: Vec<NewJob>) -> Result<Vec<SubmitResult>> {
        let (sender, answer) = oneshot::channel();
        self.send(Write::Submit(jobs, sender)).await?;
        answer.await.map_err(|_| broke_off())?
    }

    /// Makes a change, in a savepoint of its own.
    ///
    /// # Errors
    /// A statement failed or the transaction was not committed: nothing has changed.
    pub async fn change<T, F>(&self, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut AnyConnection) -> Boxed<'c, Result<T>> + Send + 'static,
    {
        let (sender, result) = oneshot::channel();
        let statement: Statement = Box::new(move |connection| {
            Box::pin(async move {
                let result = change(connection).await;
                let is_good = result.is_ok();
                let answer: Answer = Box::new(move |committed| {
                    let committed = committed.map_err(DatabaseError::Commit);
                    let _ = sender.send(result.and_then(|value| committed.map(|()| value)));
                });
                (answer, is_good)
            })
        });
        self.send(Write::Change(statement)).await?;
        result.await.map_err(|_| broke_off())?
    }

    async fn send(&self, write: Write) -> Result<()> {
        self.writes.send(write).await.map_err(|_| DatabaseError::Stopping)
    }
}

async fn run(pool: AnyPool, kind: Kind, mut waiting: mpsc::Receiver<Write>) {
    let mut queue_ids = QueueIds::default();
    let mut connections = WriterConnection { pool, kind, idle: None };
    let mut were_several = false;
    while let Some(first) = waiting.recv().await {
        if were_several {
            // Callers that have just been answered may write again. One transaction with the writes of all costs less than two with half of
            // them.
            std::thread::sleep(GATHER_FOR);
        }
        let group = gather(first, &mut waiting);
        were_several = group.len() > 1;
        let mut answers = Vec::with_capacity(group.len());
        let committed = commit(&mut connections, group, &mut queue_ids, &mut answers).await.map_err(|error| {
            // The ids of queues that were made in a transaction that was not committed are not valid.
            queue_ids = QueueIds::default();
            tracing::error!(%error, "a transaction broke off: none of its writes is stored, and their callers get an error");
            error.to_string()
        });
        answers.into_iter().for_each(|answer| answer(committed.clone()));
    }
}

/// The writer's connection. The writer keeps one connection: SQLite drops the page cache of a connection as soon as another one writes.
struct WriterConnection {
    pool: AnyPool,
    kind: Kind,
    idle: Option<PoolConnection<Any>>,
}

impl WriterConnection {
    /// The connection that was kept, if its server still answers; otherwise a new one.
    async fn take(&mut self) -> Result<PoolConnection<Any>> {
        if let Some(mut connection) = self.idle.take()
            && (self.kind == Kind::Sqlite || connection.ping().await.is_ok())
        {
            return Ok(connection);
        }
        let mut connection = self.pool.acquire().await?;
        if self.kind == Kind::Sqlite {
            connection.execute(WRITER_CACHE).await?;
        }
        Ok(connection)
    }
}

/// The writes that wait now, within the bounds of a transaction.
fn gather(first: Write, waiting: &mut mpsc::Receiver<Write>) -> Vec<Write> {
    let files = |write: &Write| match write {
        Write::Submit(jobs, _) => jobs.iter().map(|job| job.files.len()).sum(),
        Write::Change(_) => 0,
    };
    let mut group_files: usize = files(&first);
    let mut group = vec![first];
    while group.len() < limits::GROUP_WRITES_MAX && group_files < limits::GROUP_FILES_MAX {
        let Ok(next) = waiting.try_recv() else { break };
        group_files += files(&next);
        group.push(next);
    }
    group
}

/// The error of writes that were lost when a transaction broke off.
fn broke_off() -> DatabaseError {
    DatabaseError::Commit("the transaction of this write broke off".to_owned())
}

/// Writes a group as one transaction.
async fn commit(
    connections: &mut WriterConnection,
    group: Vec<Write>,
    queue_ids: &mut QueueIds,
    answers: &mut Vec<Answer>,
) -> Result<()> {
    let mut connection = connections.take().await?;
    let written = write(&mut connection, connections.kind, group, queue_ids, answers).await;
    match written {
        Ok(()) => connections.idle = Some(connection),
        // The transaction may still be open on the connection: the next one would be nested in it and never be committed.
        Err(_) => drop(connection.close().await),
    }
    written
}

async fn write(
    connection: &mut AnyConnection,
    kind: Kind,
    group: Vec<Write>,
    queue_ids: &mut QueueIds,
    answers: &mut Vec<Answer>,
) -> Result<()> {
    let mut transaction = connection.begin().await?;
    if kind == Kind::Postgres {
        // As on SQLite, one hub writes at a time, so that what a statement has read stays true until the commit.
        sqlx::query(ONE_WRITER).execute(&mut *transaction).await?;
    }
    let mut submissions = Vec::new();
    for write in group {
        match write {
            Write::Submit(jobs, answer) => submissions.push((jobs, answer)),
            Write::Change(statement) => {
                let mut savepoint = transaction.begin().await?;
                let (answer, is_good) = statement(&mut savepoint).await;
                answers.push(answer);
                if is_good { savepoint.commit().await? } else { savepoint.rollback().await? }
            }
        }
    }
    if answers.is_empty() {
        // There is no other write in this transaction: the submissions need no savepoint.
        let is_good = submit_all(&mut transaction, submissions, queue_ids, answers).await;
        if is_good {
            transaction.commit().await?
        } else {
            transaction.rollback().await?
        }
        return Ok(());
    }
    if !submissions.is_empty() {
        let mut savepoint = transaction.begin().await?;
        let is_good = submit_all(&mut savepoint, submissions, queue_ids, answers).await;
        if is_good { savepoint.commit().await? } else { savepoint.rollback().await? }
    }
    transaction.commit().await?;
    Ok(())
}

type PendingSubmission = (Vec<NewJob>, oneshot::Sender<Result<Vec<SubmitResult>>>);

/// Submits the jobs of several callers together; returns whether that succeeded.
async fn submit_all(
    connection: &mut AnyConnection,
    submissions: Vec<PendingSubmission>,
    queue_ids: &mut QueueIds,
    answers: &mut Vec<Answer>,
) -> bool {
    let mut jobs = Vec::new();
    let mut callers = Vec::new();
    for (submission, sender) in submissions {
        callers.push((submission.len(), sender));
        jobs.extend(submission);
    }
    let result = submissions::submit(connection, jobs, queue_ids).await;
    let is_good = result.is_ok();
    if !is_good {
        // The queues that were made for the jobs have been rolled back.
        *queue_ids = QueueIds::default();
    }
    let mut results = result.map(Vec::into_iter).map_err(|error| error.to_string());
    for (count, sender) in callers {
        let caller_results = match &mut results {
            Ok(all) => Ok(all.by_ref().take(count).collect()),
            Err(error) => Err(DatabaseError::Commit(error.clone())),
        };
        answers.push(Box::new(move |committed| {
            let committed = committed.map_err(DatabaseError::Commit);
            let _ = sender.send(caller_results.and_then(|results| committed.map(|()| results)));
        }));
    }
    is_good
}
