//! Many targets side by side. One target's trouble is that target's answer: the others go on, and the whole ends in time.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

/// Most targets at the same time, whatever was asked for: each holds a connection, and more would only wait.
pub const MOST: usize = 1024;

/// How many at once, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Targets at the same time (`--parallel`), at most [`MOST`] of them.
    pub parallel: NonZeroUsize,
    /// Longest for one target.
    pub each: Duration,
    /// Longest for all of them.
    pub all: Duration,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            parallel: const { NonZeroUsize::new(8).unwrap() },
            each: Duration::from_secs(30),
            all: Duration::from_secs(300),
        }
    }
}

/// What became of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<R> {
    /// It was done.
    Done(R),
    /// Its own deadline ended it.
    TargetDeadline,
    /// The deadline of the whole run ended it, or kept it from starting.
    RunDeadline,
    /// The run was asked to stop before it was done.
    Stopped,
    /// A defect of this tool ended it.
    Lost,
}

/// Asks a run to end early, for instance on Ctrl-C. Whoever works on a target listens, and gives what it has so far.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// The two ends: `send(true)` on the first asks everybody who holds a clone of the second.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    /// Never asks.
    pub fn never() -> Self {
        Self::new().1
    }

    /// Was it asked?
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Until it is asked; for ever where nobody can ask.
    pub async fn asked(&self) {
        let asked = self.0.clone().wait_for(|asked| *asked).await.is_ok();
        if !asked {
            std::future::pending::<()>().await;
        }
    }
}

/// How long a target may take to give what it has when the run is asked to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Runs `work` for every target, at most [`Schedule::parallel`] at a time, and gives the answers in the order of the
/// targets. `done` hears of each answer as it comes, for a progress bar. Only running targets are held in memory.
pub async fn side_by_side<T, R, W, F>(
    targets: Vec<T>,
    schedule: Schedule,
    work: W,
    done: impl FnMut(usize, &Answer<R>),
) -> Vec<Answer<R>>
where
    T: Send + 'static,
    R: Send + 'static,
    W: Fn(T) -> F + Send + Sync + 'static,
    F: Future<Output = R> + Send,
{
    side_by_side_until(targets, schedule, Stop::never(), work, done).await
}

/// The same, and no further target is started once `stop` asks; `work` should listen to it too.
pub async fn side_by_side_until<T, R, W, F>(
    targets: Vec<T>,
    schedule: Schedule,
    stop: Stop,
    work: W,
    mut done: impl FnMut(usize, &Answer<R>),
) -> Vec<Answer<R>>
where
    T: Send + 'static,
    R: Send + 'static,
    W: Fn(T) -> F + Send + Sync + 'static,
    F: Future<Output = R> + Send,
{
    let end = Instant::now() + schedule.all;
    let work = Arc::new(work);
    let mut answers: Vec<Answer<R>> = targets.iter().map(|_| Answer::Lost).collect();
    let mut waiting = targets.into_iter().enumerate();
    let mut running = JoinSet::new();
    let mut start = |running: &mut JoinSet<(usize, Answer<R>)>| {
        let Some((index, target)) = waiting.next() else {
            return;
        };
        let (work, stop) = (Arc::clone(&work), stop.clone());
        running.spawn(async move {
            let own = Instant::now() + schedule.each;
            if stop.is_asked() {
                return (index, Answer::Stopped);
            }
            if Instant::now() >= end {
                return (index, Answer::RunDeadline);
            }
            let stopped = async {
                stop.asked().await;
                sleep(GRACE).await;
            };
            let answer = tokio::select! {
                done = timeout_at(own.min(end), work(target)) => match done {
                    Ok(done) => Answer::Done(done),
                    Err(_) if own <= end => Answer::TargetDeadline,
                    Err(_) => Answer::RunDeadline,
                },
                () = stopped => Answer::Stopped,
            };
            (index, answer)
        });
    };
    for _ in 0..schedule.parallel.get().min(MOST) {
        start(&mut running);
    }
    while let Some(joined) = running.join_next().await {
        // A panic leaves `Lost` in its place.
        if let Ok((index, answer)) = joined {
            done(index, &answer);
            answers[index] = answer;
        }
        start(&mut running);
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn schedule(parallel: usize, each: u64, all: u64) -> Schedule {
        Schedule {
            parallel: NonZeroUsize::new(parallel).unwrap(),
            each: Duration::from_secs(each),
            all: Duration::from_secs(all),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn order_is_that_of_the_targets_and_never_more_run_than_allowed() {
        let now = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&most);
        let work = move |n: u64| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(100 - n)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                n
            }
        };
        let mut heard = 0;
        let answers = side_by_side((0..20).collect(), schedule(8, 30, 300), work, |_, _| {
            heard += 1
        })
        .await;
        assert_eq!(answers, (0..20).map(Answer::Done).collect::<Vec<_>>());
        assert_eq!((seen.load(Ordering::SeqCst), heard), (8, 20));
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_there_are_cost_nothing() {
        let work = |n: u64| async move { n };
        let answers = side_by_side(vec![0, 1], schedule(usize::MAX, 5, 300), work, |_, _| {}).await;
        assert_eq!(answers, [Answer::Done(0), Answer::Done(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_or_panics_costs_the_others_nothing() {
        let work = |n: u64| async move {
            match n {
                1 => std::future::pending().await,
                2 => panic!("a defect"),
                n => n,
            }
        };
        let answers = side_by_side(vec![0, 1, 2, 3], schedule(2, 5, 300), work, |_, _| {}).await;
        let expected = [
            Answer::Done(0),
            Answer::TargetDeadline,
            Answer::Lost,
            Answer::Done(3),
        ];
        assert_eq!(answers, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn the_whole_run_ends_within_its_deadline() {
        let started = Instant::now();
        let work = |_| std::future::pending::<()>();
        let answers = side_by_side(vec![(); 5], schedule(2, 30, 40), work, |_, _| {}).await;
        assert_eq!(started.elapsed(), Duration::from_secs(40));
        assert_eq!(
            answers[..2],
            [Answer::TargetDeadline, Answer::TargetDeadline]
        );
        assert_eq!(
            answers[2..],
            [
                Answer::RunDeadline,
                Answer::RunDeadline,
                Answer::RunDeadline
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_stopped_keeps_what_it_has_and_starts_nothing_more() {
        let (sender, stop) = Stop::new();
        let listening = stop.clone();
        let work = move |n: u64| {
            let stop = listening.clone();
            async move {
                match n {
                    0 => n,
                    1 => {
                        stop.asked().await;
                        n
                    }
                    _ => std::future::pending().await,
                }
            }
        };
        tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            sender.send(true)
        });
        let started = Instant::now();
        let answers = side_by_side_until(
            vec![0, 1, 2, 3],
            schedule(2, 30, 300),
            stop,
            work,
            |_, _| {},
        )
        .await;
        let expected = [
            Answer::Done(0),
            Answer::Done(1),
            Answer::Stopped,
            Answer::Stopped,
        ];
        assert_eq!(answers, expected);
        assert!(started.elapsed() <= Duration::from_secs(1) + GRACE);
    }
}
