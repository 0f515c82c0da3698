//! The command line: what may be typed. What is done with it is in the module of each command.

use crate::access::AccessCommand;
use crate::admin::MdsPlace;
use crate::client_cmds::ClientCommand;
use crate::clients::{ClientsCommand, LockCommand};
use crate::config::{Access, AtimeName, CreateChoice, ExportTable, SquashName, TransportChoice};
use crate::config_cmd::ConfigCommand;
use crate::doctor::DoctorArgs;
use crate::nfs3_servers::{self, AddArgs, ProbeArgs};
use crate::nlm_hosts::NlmCommand;
use crate::rdma_provider::ProviderChoice;
use crate::reload::ReloadArgs;
use crate::setup::SetupCommand;
use crate::status::StatusArgs;
use crate::top::TopArgs;
use crate::up::dirs::UP_DS_MAX;
use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use server::exports::{ANONYMOUS_ID, ClientRule};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Data servers of `ropewalk up` and `ropewalk demo` when nothing else is said.
pub(crate) const UP_DS_DEFAULT: u16 = 4;
/// Longest life of a join token.
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// What `--version` says; reports of `bench` take the commit from it, so its form is fixed.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("ROPEWALK_COMMIT"),
    ")"
);

/// The end of the manual page. docs/operate/README.md has the exit codes too.
const AFTER_LONG_HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line or a configuration is wrong: the same again cannot help
  3  the cluster has expelled this data server

Try `ropewalk demo` for a self-test, and `ropewalk up` for a file system on this machine.";

/// Parallel NFS: one metadata server and many data servers that form one POSIX file system.
///
/// Every Linux kernel already has the client: mount -t nfs -o vers=4.2 HOST:/ /mnt
#[derive(Debug, Parser)]
#[command(
    name = "ropewalk",
    version,
    long_version = LONG_VERSION,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Try `ropewalk demo` for a self-test, and `ropewalk up` for a file system on this machine.",
    after_long_help = AFTER_LONG_HELP
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// One variant for each command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster on this machine: one metadata server and several data servers
    Up(UpArgs),
    /// Run a metadata server
    Mds(DaemonArgs),
    /// Run a data server, or see to those of a cluster
    Ds(DsArgs),
    /// Show servers, capacity, sessions, layouts and counters
    Status(StatusArgs),
    /// Watch what servers, operations and clients do, each second
    Top(TopArgs),
    /// Make and list the one-time tokens with which data servers join
    #[command(subcommand)]
    Token(TokenCommand),
    /// Make, list and revoke the tokens with which people and programs ask the metadata server over the network
    #[command(subcommand)]
    Access(AccessCommand),
    /// Change the keys that sign handles for data servers
    #[command(subcommand)]
    Key(KeyCommand),
    /// See how lost copies of data are made again
    #[command(subcommand)]
    Repair(RepairCommand),
    /// Compare what lies on the disks with its sums, and mend it
    Scrub(ScrubArgs),
    /// Remove a data server from the cluster for good: what it alone holds is lost
    Expel(ExpelArgs),
    /// Write the configuration of a server: three questions, or options
    #[command(subcommand)]
    Setup(SetupCommand),
    /// Look at the servers of this machine, also at those that fail, and say what to do
    Doctor(DoctorArgs),
    /// Check configuration files, and show what they come to
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Have a server read its configuration again: exports, limits of connections and `log` change at once
    Reload(ReloadArgs),
    /// See the clients of the metadata server and what they hold
    #[command(name = "client", subcommand)]
    Clients(ClientsCommand),
    /// See the locks, opens and delegations of a file, and their holders
    #[command(subcommand)]
    Lock(LockCommand),
    /// See which hosts have locks by NFSv3, and end those of one that will never come back
    #[command(subcommand)]
    Nlm(NlmCommand),
    /// Show RDMA devices, and why they can or cannot be used
    Rdma(RdmaArgs),
    /// Prove on this machine that the data go to the data servers, and come back unchanged
    Demo(DemoArgs),
    #[command(flatten)]
    Client(ClientCommand),
    /// Measure, with `ropewalk-bench`: the published experiments again, the goals, the bare limits of this machine
    #[command(disable_help_flag = true)]
    Bench {
        /// What `ropewalk-bench` is told; see `ropewalk bench --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands into a directory
    Man {
        /// Directory for one page per command
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// `ropewalk mds` and `ropewalk ds`.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Configuration file (TOML)
    #[arg(long, short, value_name = "FILE")]
    pub config: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    pub check_config: bool,
    /// Stop when standard input is closed; `ropewalk up` starts its servers so
    #[arg(long)]
    pub exit_with_parent: bool,
}

/// `ropewalk ds`.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
pub(crate) struct DsArgs {
    /// What to do with the data servers of a cluster
    #[command(subcommand)]
    pub order: Option<DsOrder>,
    #[command(flatten)]
    pub daemon: Option<DaemonArgs>,
    /// Serve, as the child of a watcher that is at the other end of standard input
    #[arg(long, hide = true)]
    pub watched: bool,
}

/// `ropewalk ds ...`: orders to the metadata server.
#[derive(Debug, Subcommand)]
pub(crate) enum DsOrder {
    /// Show the data servers, how full they are, and of how many places each is a member
    List {
        #[command(flatten)]
        place: MdsPlace,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say whether an NFSv3 server of others could hold data, and what it lacks. It leaves nothing there
    ProbeNfs3(ProbeArgs),
    /// Let an NFSv3 server of others hold data. The metadata server tries it first
    AddNfs3(AddArgs),
    /// Give an NFSv3 server of others no new files. Those that it has move to others, while they are used
    DrainNfs3(nfs3_servers::DrainArgs),
    /// Give an NFSv3 server of others that was drained new files again
    UndrainNfs3(nfs3_servers::UndrainArgs),
    /// Use an NFSv3 server of others no more: one that is drained and has no files
    RemoveNfs3(nfs3_servers::RemoveArgs),
    /// Give all that a data server has to others, while it serves on
    Drain {
        /// Id of the data server, as `ropewalk ds list` shows it
        id: u32,
        #[command(flatten)]
        args: OrderArgs,
    },
    /// Let a drained data server keep what it still has, and take new files again
    Undrain {
        /// Id of the data server
        id: u32,
        #[command(flatten)]
        place: MdsPlace,
    },
    /// Take a drained data server out of the cluster for good
    Remove {
        /// Id of the data server
        id: u32,
        /// Take it out even if it has places. What it has the last copy of is lost
        #[arg(long)]
        yes_lose_data: bool,
        /// Say as JSON what would be lost or is
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: MdsPlace,
    },
    /// Give all that a data server has to another one
    Replace {
        /// Id of the data server that goes
        old: u32,
        /// Id of the one that takes its places
        new: u32,
        #[command(flatten)]
        args: OrderArgs,
    },
    /// Move places from full data servers to those with more room, until they are level
    Rebalance {
        /// Move nothing more
        #[arg(long)]
        stop: bool,
        #[command(flatten)]
        args: OrderArgs,
    },
}

/// What orders that take long have in common.
#[derive(Debug, Args)]
pub(crate) struct OrderArgs {
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not wait until it is done
    #[arg(long)]
    pub no_wait: bool,
    /// From now on let each data server send copies at this many bytes per second at most, for example 50MiB; 0 takes the
    /// limit away
    #[arg(long, value_name = "RATE", value_parser = parse_fill_rate)]
    pub max_rate: Option<ByteSize>,
    /// Print JSON when the command ends
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: MdsPlace,
}

/// Reads a rate of fillings.
fn parse_fill_rate(text: &str) -> Result<ByteSize, String> {
    let rate: ByteSize = text.trim_end_matches("/s").parse()?;
    crate::config::check_fill_rate(rate)?;
    Ok(rate)
}

impl OrderArgs {
    /// Whether the command waits until it is done.
    pub(crate) fn wait(&self) -> bool {
        !self.no_wait
    }
}

/// `ropewalk repair ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum RepairCommand {
    /// Show which places lack copies, and how far those are that are being made
    Status {
        #[command(flatten)]
        place: MdsPlace,
        /// Show the progress until each place has its copies
        #[arg(long)]
        watch: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Open placement groups that are closed because the metadata server's state has gone back
    ///
    /// Put the newest state back first, if it is there. Data servers that know most keep their data, and copies are made
    /// again from them. What the state does not know is lost.
    AcceptState {
        #[command(flatten)]
        place: MdsPlace,
        /// Do it
        #[arg(long)]
        yes: bool,
    },
}

/// `ropewalk scrub`.
#[derive(Debug, Args)]
pub(crate) struct ScrubArgs {
    /// Begin a comparison on all data servers, and show how far it is
    #[arg(long)]
    pub now: bool,
    /// With --now, do not wait until it has ended
    #[arg(long, requires = "now")]
    pub no_wait: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: MdsPlace,
}

/// `ropewalk up`.
#[derive(Debug, Args, Default)]
pub(crate) struct UpArgs {
    /// Number of data servers [default: 4, or as many as DIR has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(UP_DS_MAX)))]
    pub ds: Option<u16>,
    /// Directory of all state [default: $XDG_DATA_HOME/ropewalk, ~/.local/share/ropewalk, as root /var/lib/ropewalk]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Addresses that clients connect to, one for each network interface [default: 127.0.0.1, or what DIR says]
    #[arg(long, value_name = "ADDR[,ADDR]", value_delimiter = ',')]
    pub listen: Vec<IpAddr>,
    /// Port of the metadata server; 0 picks a free one [default: 2049, or what DIR says]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Stripe unit of new files [default: 1MiB, or what DIR says]
    #[arg(long, value_name = "SIZE")]
    pub stripe_unit: Option<ByteSize>,
    /// Copies of new files, each at another data server [default: 1, or what DIR says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(cluster::COPIES_MAX)))]
    pub copies: Option<u32>,
    /// Serve NFSv3 as well
    #[arg(long)]
    pub nfs3: bool,
    /// With --nfs3: tell this machine's rpcbind, which locks of NFSv3 need
    #[arg(long, requires = "nfs3")]
    pub register_rpcbind: bool,
    /// When the objects of a new file are made: lazy, by the first write to each data server, or eager, with the file [default: lazy, or what DIR says]
    #[arg(long, value_name = "WHEN", value_enum, hide_possible_values = true)]
    pub create: Option<CreateChoice>,
    /// What all paths use: tcp, rdma, or auto for RDMA, then TCP [default: tcp, or what DIR says]
    #[arg(
        long,
        value_name = "TRANSPORT",
        value_enum,
        hide_possible_values = true
    )]
    pub transport: Option<TransportChoice>,
    /// What RDMA runs on: verbs (devices, by rdma-core), iwarp (built-in software, no hardware), or auto for devices where
    /// the address is on one [default: auto, or what DIR says]
    #[arg(long, value_name = "PROVIDER", value_enum, hide_possible_values = true)]
    pub rdma_provider: Option<ProviderChoice>,
    /// Checksums over the frames of software iWARP; with false they go without where a client wants none either [default: true, or what DIR says]
    #[arg(long, value_name = "BOOL")]
    pub rdma_crc: Option<bool>,
    /// Serve the dashboard and the REST API on a port of this machine alone, and print an address that signs in
    #[arg(long)]
    pub dashboard: bool,
    /// Keep everything in memory: gone when `up` ends
    #[arg(long)]
    pub memory: bool,
    /// With --memory, what the data of all data servers together may take; they share it evenly [default: 4GiB, or what DIR says]
    #[arg(long, value_name = "SIZE", requires = "memory")]
    pub memory_size: Option<ByteSize>,
    /// Who may mount, e.g. 10.0.0.0/8:rw:root; repeatable, required when --listen is beyond loopback
    #[arg(long, value_name = "CLIENTS[:ro|rw][:root|all|none]", value_parser = parse_export)]
    pub export: Vec<ExportTable>,
}

/// `ropewalk rdma`.
#[derive(Debug, Args)]
pub(crate) struct RdmaArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `ropewalk token ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token with which one data server joins, once
    Create {
        #[command(flatten)]
        place: MdsPlace,
        /// How long it is good, as in 30m, 1h or 7d
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_ttl)]
        ttl: Duration,
    },
    /// Show the tokens that wait to be used (not their secrets)
    List {
        #[command(flatten)]
        place: MdsPlace,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `ropewalk key ...`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a new key now; handles under older keys stay valid until their layouts come back or are recalled
    Rotate {
        #[command(flatten)]
        place: MdsPlace,
    },
}

/// `ropewalk expel`.
#[derive(Debug, Args)]
pub(crate) struct ExpelArgs {
    /// Id of the data server, as `ropewalk status` shows it
    pub id: u32,
    /// Do not ask for confirmation
    #[arg(long)]
    pub yes: bool,
    /// Expel it even if it has the last copy of data, which is lost then. Nothing is asked
    #[arg(long)]
    pub yes_lose_data: bool,
    /// Say as JSON what would be lost or is; asks nothing, and expels with --yes or --yes-lose-data only
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: MdsPlace,
}

/// `ropewalk demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Bytes to copy in and out
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub size: ByteSize,
    /// Keep the directories of its clusters, and say where they are
    #[arg(long)]
    pub keep: bool,
}

/// A time as `90s`, `30m`, `1h` or `7d`.
fn parse_ttl(text: &str) -> Result<Duration, String> {
    let refuse = || "write a whole number and s, m, h or d, as in 30m; at most 30d".to_owned();
    let ttl = crate::times::parse(text).ok_or_else(refuse)?;
    if ttl.is_zero() || ttl > TTL_MAX {
        return Err(refuse());
    }
    Ok(ttl)
}

/// `CLIENTS[:ro|rw][:SQUASH]`. Read from the right, since IPv6 networks have colons too.
fn parse_export(text: &str) -> Result<ExportTable, String> {
    let (mut rest, mut access, mut squash) = (text, None, None);
    while let Some((before, word)) = rest.rsplit_once(':') {
        match word {
            "ro" if access.is_none() => access = Some(Access::Ro),
            "rw" if access.is_none() => access = Some(Access::Rw),
            "root" | "root_squash" if squash.is_none() => squash = Some(SquashName::Root),
            "all" | "all_squash" if squash.is_none() => squash = Some(SquashName::All),
            "none" | "no_root_squash" if squash.is_none() => squash = Some(SquashName::None),
            _ => break,
        }
        rest = before;
    }
    rest.parse::<ClientRule>().map_err(|e| e.to_string())?;
    Ok(ExportTable {
        clients: rest.to_owned(),
        access: access.unwrap_or_default(),
        squash: squash.unwrap_or_default(),
        anonymous_uid: ANONYMOUS_ID,
        anonymous_gid: ANONYMOUS_ID,
        atime: AtimeName::default(),
    })
}

#[cfg(test)]
mod tests {
    //! Goal: the command line is consistent, and what is typed means what it says.
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_has_a_help_text() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for arg in command.get_arguments() {
                assert!(
                    arg.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    arg.get_id()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    /// One name for the same thing; the older one still works.
    #[test]
    fn the_directory_of_a_server_has_one_name_everywhere() {
        let commands = [
            "status",
            "token create",
            "token list",
            "key rotate",
            "expel 1",
            "ds list",
            "ds drain 1",
            "ds undrain 1",
            "ds remove 1",
            "ds replace 1 2",
            "ds rebalance",
            "repair status",
            "scrub",
            "client list",
            "reload",
            "client show 1",
            "client evict 1",
            "lock list /f",
            "setup mds",
            "setup ds",
            "doctor",
        ];
        for command in commands {
            for option in ["--dir", "--state-dir"] {
                let words = ["ropewalk"].into_iter().chain(command.split(' '));
                let parsed = Cli::try_parse_from(words.chain([option, "/d"]));
                assert!(parsed.is_ok(), "{command} {option}: {parsed:?}");
            }
        }
    }

    #[test]
    fn orders_that_move_data_take_a_rate() {
        let rate = |order: &str, rate: &str| {
            let words = ["ropewalk", "ds"].into_iter().chain(order.split(' '));
            let parsed = Cli::try_parse_from(words.chain(["--max-rate", rate]));
            match parsed.ok()?.command {
                Command::Ds(args) => match args.order? {
                    DsOrder::Drain { args, .. }
                    | DsOrder::Replace { args, .. }
                    | DsOrder::Rebalance { args, .. } => args.max_rate.map(|rate| rate.as_u64()),
                    _ => None,
                },
                _ => None,
            }
        };
        for order in ["drain 1", "replace 1 2", "rebalance", "rebalance --stop"] {
            for (text, bytes_per_s) in [
                ("50MiB", Some(50 << 20)),
                ("64KiB/s", Some(64 << 10)),
                ("0", Some(0)),
                ("63KiB", None),
                ("fast", None),
                ("-1", None),
            ] {
                assert_eq!(rate(order, text), bytes_per_s, "{order} {text}");
            }
        }
        assert_eq!(rate("undrain 1", "1MiB"), None);
    }

    #[test]
    fn exports_are_read_from_the_right() {
        let parsed = |text| parse_export(text).map(|e| (e.clients, e.access, e.squash));
        let is = |clients: &str, access, squash| Ok((clients.to_owned(), access, squash));
        assert_eq!(
            parsed("10.0.0.0/8"),
            is("10.0.0.0/8", Access::Rw, SquashName::Root)
        );
        assert_eq!(parsed("*:ro"), is("*", Access::Ro, SquashName::Root));
        assert_eq!(
            parsed("fd00::/8:rw:none"),
            is("fd00::/8", Access::Rw, SquashName::None)
        );
        assert_eq!(parsed("::1:all:ro"), is("::1", Access::Ro, SquashName::All));
        for wrong in ["", "host", "10.0.0.0/8:rx", "10.0.0.0/8:ro:rw", ":ro"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_a_unit_and_a_limit() {
        assert_eq!(parse_ttl("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_ttl("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for wrong in [
            "",
            "1",
            "h",
            "0s",
            "31d",
            "-1h",
            "18446744073709551615d",
            "1µ",
        ] {
            assert!(parse_ttl(wrong).is_err(), "{wrong}");
        }
    }
}
