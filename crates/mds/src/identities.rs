//! Users and groups as this machine knows them: the groups of a user (`manage_gids`), and names for owners (`domain`).
//!
//! AUTH_SYS carries 16 groups at most; with `manage_gids` a user's groups are those that this machine's directory says, whatever the
//! client claims. With a domain, owners are `name@domain` on the wire; without one they are numbers (RFC 8881 §5.9).
//!
//! # Ownership
//! Answers, also that something is not known, are kept for a while in one bounded cache. A [`Directory`] may block, so it is asked
//! on the blocking pool, by few at a time.
//!
//! # Ordering
//! [`Identities::learn`] asks and waits; everything else only looks at what is known by then, so that attributes are encoded
//! and credentials judged without waiting.
//!
//! # Failure
//! If the directory fails or is too slow, earlier answers stay in use. Without one, a user has the groups that the client
//! claims, and an owner is a number. The directory is asked again after [`RETRY`].

use nfs4::{NfsStatus, Owner};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing_mutex::parkinglot::Mutex;
use transport::CallId;
use xdr::OpaqueBuf;

/// Most groups of one user; more are ignored.
pub const GROUPS_MAX: usize = 4096;
/// Answers in the cache.
const ANSWERS_MAX: usize = 1 << 16;
/// How long an answer is good.
const KNOWN_FOR: Duration = Duration::from_secs(300);
/// How long it is good that something is not known.
const UNKNOWN_FOR: Duration = Duration::from_secs(60);
/// When a directory that has failed is asked the same again.
const RETRY: Duration = Duration::from_secs(10);
/// Questions that the directory is asked at one time.
const ASKING_MAX: usize = 16;
/// How long a request waits for an answer.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Longest name, its domain included.
const NAME_BYTES_MAX: usize = 512;

/// Whether a number or name is a user's or a group's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A user.
    User,
    /// A group.
    Group,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// All groups of a user.
    Groups(u32),
    /// The name of a number.
    Name(IdKind, u32),
    /// The number of a name, without a domain.
    Id(IdKind, String),
}

/// What a directory answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameAnswer {
    /// To [`Question::Groups`].
    Groups(Arc<[u32]>),
    /// To [`Question::Name`].
    Name(Arc<str>),
    /// To [`Question::Id`].
    Id(u32),
    /// There is no such user or group.
    Unknown,
}

/// Where users and groups are looked up, such as the name service switch. May block.
pub trait Directory: Send + Sync + 'static {
    /// Answers a question with the variant that it is for, or [`NameAnswer::Unknown`].
    ///
    /// # Errors
    /// The directory cannot be asked now.
    fn ask(&self, question: &Question) -> std::io::Result<NameAnswer>;
}

/// How identities are translated. The default is not at all.
#[derive(Default)]
pub struct IdentityConfig {
    /// Where to look. Without it the other two mean nothing.
    pub directory: Option<Arc<dyn Directory>>,
    /// Whether the directory says which groups a user has.
    pub manage_gids: bool,
    /// The domain of names on the wire; numbers without it.
    pub domain: Option<String>,
}

struct Known {
    answer: NameAnswer,
    until: Instant,
}

#[derive(Default)]
struct Cache {
    map: HashMap<Question, Known>,
    /// Questions in the order in which they came, the one to forget first in front.
    order: VecDeque<Question>,
}

impl Cache {
    fn is_fresh(&self, question: &Question, now: Instant) -> bool {
        self.map.get(question).is_some_and(|k| k.until > now)
    }

    fn keep(&mut self, question: Question, answer: NameAnswer, until: Instant) {
        if let Some(known) = self.map.get_mut(&question) {
            *known = Known { answer, until };
            return;
        }
        while self.map.len() >= ANSWERS_MAX {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.map.remove(&oldest);
        }
        self.order.push_back(question.clone());
        self.map.insert(question, Known { answer, until });
    }

    /// What was known before is good for a little longer; what was not counts as unknown.
    fn keep_failure(&mut self, question: Question, until: Instant) {
        let before = self.map.get(&question).map(|k| k.answer.clone());
        self.keep(question, before.unwrap_or(NameAnswer::Unknown), until);
    }
}

/// See the module's comment.
pub(crate) struct Identities {
    config: IdentityConfig,
    cache: Arc<Mutex<Cache>>,
    asking: Arc<Semaphore>,
}

impl Identities {
    pub(crate) fn new(config: IdentityConfig) -> Self {
        Self {
            config,
            cache: Arc::default(),
            asking: Arc::new(Semaphore::new(ASKING_MAX)),
        }
    }

    /// Whether users' groups are looked up.
    pub(crate) fn manages_groups(&self) -> bool {
        self.config.manage_gids && self.config.directory.is_some()
    }

    /// Whether owners have names on the wire.
    pub(crate) fn has_names(&self) -> bool {
        self.config.domain.is_some() && self.config.directory.is_some()
    }

    /// Makes sure that questions are answered, as far as they can be now.
    pub(crate) async fn learn(&self, questions: impl IntoIterator<Item = Question>) {
        let Some(directory) = &self.config.directory else {
            return;
        };
        for question in questions {
            if self.cache.lock().is_fresh(&question, Instant::now()) {
                continue;
            }
            let asked = self.ask(Arc::clone(directory), question.clone());
            if tokio::time::timeout(WAIT_MAX, asked).await.is_err() {
                tracing::warn!(
                    ?question,
                    "the directory of users and groups does not answer"
                );
                let until = Instant::now() + RETRY;
                self.cache.lock().keep_failure(question, until);
            }
        }
    }

    /// Asks the directory. The answer is kept also when nobody waits for it any more.
    async fn ask(&self, directory: Arc<dyn Directory>, question: Question) {
        let Ok(permit) = Arc::clone(&self.asking).acquire_owned().await else {
            return;
        };
        // Others may have asked the same while this one waited.
        if self.cache.lock().is_fresh(&question, Instant::now()) {
            return;
        }
        let cache = Arc::clone(&self.cache);
        let work = move || {
            let _one_of_few = permit;
            let answer = directory.ask(&question);
            let now = Instant::now();
            match answer {
                Ok(NameAnswer::Unknown) => {
                    let until = now + UNKNOWN_FOR;
                    cache.lock().keep(question, NameAnswer::Unknown, until);
                }
                Ok(answer) => cache.lock().keep(question, answer, now + KNOWN_FOR),
                Err(error) => {
                    tracing::warn!(?question, %error, "the directory of users and groups");
                    cache.lock().keep_failure(question, now + RETRY);
                }
            }
        };
        // A directory that panics has said nothing: the question is asked again next time.
        let _done = tokio::task::spawn_blocking(CallId::carry_over(work)).await;
    }

    fn known(&self, question: &Question) -> Option<NameAnswer> {
        self.cache
            .lock()
            .map
            .get(question)
            .map(|k| k.answer.clone())
    }

    /// The groups of a user, if they are looked up and known.
    pub(crate) fn groups(&self, uid: u32) -> Option<Arc<[u32]>> {
        if !self.manages_groups() {
            return None;
        }
        match self.known(&Question::Groups(uid)) {
            Some(NameAnswer::Groups(groups)) => Some(groups),
            _ => None,
        }
    }

    /// A user or group on the wire: by name if that is known, else in decimal.
    pub(crate) fn owner(&self, kind: IdKind, id: u32) -> Owner {
        // `to_string` of a number does not go through `fmt`, which cost a GETATTR 250 instructions.
        let number = || OpaqueBuf(id.to_string().into_bytes());
        let Some(domain) = self.config.domain.as_ref().filter(|_| self.has_names()) else {
            return number();
        };
        match self.known(&Question::Name(kind, id)) {
            Some(NameAnswer::Name(name)) if name.len() + domain.len() < NAME_BYTES_MAX => {
                Owner::from(format!("{name}@{domain}").as_bytes())
            }
            _ => number(),
        }
    }

    /// The number of a user or group on the wire.
    pub(crate) fn id(&self, kind: IdKind, owner: &Owner) -> Result<u32, NfsStatus> {
        let text = std::str::from_utf8(&owner.0).map_err(|_| NfsStatus::Inval)?;
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let question = self.question_of(kind, owner).ok_or(NfsStatus::BadOwner)?;
        match self.known(&question) {
            Some(NameAnswer::Id(id)) => Ok(id),
            _ => Err(NfsStatus::BadOwner),
        }
    }

    /// What must be asked to read an owner: nothing for a number, a foreign domain, or without a domain.
    pub(crate) fn question_of(&self, kind: IdKind, owner: &Owner) -> Option<Question> {
        let domain = self.config.domain.as_ref().filter(|_| self.has_names())?;
        let text = std::str::from_utf8(&owner.0).ok()?;
        let (name, of) = text.rsplit_once('@')?;
        let ours = of.eq_ignore_ascii_case(domain) && text.len() <= NAME_BYTES_MAX;
        let named = !name.is_empty() && !name.contains('\0');
        (ours && named).then(|| Question::Id(kind, name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each question goes to the directory once while its answer is good. A directory that fails or hangs takes
    //! away nothing that was known. The cache has a bound. Method: a directory that counts, on paused time.

    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    #[derive(Default)]
    struct Counting {
        asked: AtomicUsize,
        fails: AtomicBool,
    }

    impl Directory for Counting {
        fn ask(&self, question: &Question) -> std::io::Result<NameAnswer> {
            self.asked.fetch_add(1, SeqCst);
            if self.fails.load(SeqCst) {
                return Err(std::io::Error::other("down"));
            }
            Ok(match question {
                Question::Groups(1) => NameAnswer::Groups((0..40).collect()),
                Question::Name(_, 1) => NameAnswer::Name("ann".into()),
                Question::Id(IdKind::User, name) if name == "ann" => NameAnswer::Id(1),
                _ => NameAnswer::Unknown,
            })
        }
    }

    fn identities(directory: &Arc<Counting>) -> Identities {
        Identities::new(IdentityConfig {
            directory: Some(Arc::clone(directory) as Arc<dyn Directory>),
            manage_gids: true,
            domain: Some("example.org".into()),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn answers_and_the_lack_of_them_are_kept_for_their_time() {
        let directory = Arc::<Counting>::default();
        let ids = identities(&directory);
        let both = || [Question::Groups(1), Question::Groups(2)];
        let asked = || directory.asked.load(SeqCst);
        assert_eq!(ids.groups(1), None);
        ids.learn(both()).await;
        ids.learn(both()).await;
        assert_eq!(
            (ids.groups(1).map(|g| g.len()), ids.groups(2), asked()),
            (Some(40), None, 2)
        );
        tokio::time::advance(UNKNOWN_FOR).await;
        ids.learn(both()).await;
        assert_eq!(asked(), 3, "only what was not known");
        tokio::time::advance(KNOWN_FOR).await;
        directory.fails.store(true, SeqCst);
        ids.learn(both()).await;
        ids.learn(both()).await;
        assert_eq!(asked(), 5);
        assert_eq!(
            ids.groups(1).map(|g| g.len()),
            Some(40),
            "what was known is used on"
        );
        tokio::time::advance(RETRY).await;
        ids.learn(both()).await;
        assert_eq!(asked(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn owners_are_names_of_the_domain_or_numbers() {
        let directory = Arc::<Counting>::default();
        let ids = identities(&directory);
        let owner = |text: &str| Owner::from(text.as_bytes());
        let learn = |text: &str| ids.question_of(IdKind::User, &owner(text));
        ids.learn([
            Question::Name(IdKind::User, 1),
            Question::Name(IdKind::User, 2),
        ])
        .await;
        assert_eq!(ids.owner(IdKind::User, 1), owner("ann@example.org"));
        assert_eq!(ids.owner(IdKind::User, 2), owner("2"));
        ids.learn(learn("ann@EXAMPLE.org")).await;
        ids.learn(learn("bob@example.org")).await;
        let id = |text: &str| ids.id(IdKind::User, &owner(text));
        assert_eq!((id("ann@example.org"), id("77")), (Ok(1), Ok(77)));
        for foreign in [
            "bob@example.org",
            "ann@example.com",
            "ann",
            "@example.org",
            "-1",
            "",
        ] {
            assert_eq!(id(foreign), Err(NfsStatus::BadOwner), "{foreign}");
        }
        assert_eq!(
            ids.id(IdKind::User, &Owner::from([0xff].as_slice())),
            Err(NfsStatus::Inval)
        );
        let off = Identities::new(IdentityConfig::default());
        assert_eq!(off.owner(IdKind::User, 1), owner("1"));
        assert_eq!(
            off.id(IdKind::User, &owner("ann@example.org")),
            Err(NfsStatus::BadOwner)
        );
    }

    #[test]
    fn the_cache_forgets_the_oldest_beyond_its_bound() {
        let mut cache = Cache::default();
        let until = Instant::now();
        for n in 0..u32::try_from(ANSWERS_MAX).unwrap() + 10 {
            cache.keep(Question::Groups(n), NameAnswer::Unknown, until);
        }
        assert_eq!(
            (cache.map.len(), cache.order.len()),
            (ANSWERS_MAX, ANSWERS_MAX)
        );
        assert!(!cache.map.contains_key(&Question::Groups(9)));
        assert!(cache.map.contains_key(&Question::Groups(10)));
    }
}
