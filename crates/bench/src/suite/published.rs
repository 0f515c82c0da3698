//! Published figures, as small files of data with their source: see `crates/bench/published`.
//!
//! A file without series says where the figure is to be found; its values are not known to us, and none are made up.

use serde::{Deserialize, Serialize};

/// One published figure.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    /// Where it was published.
    pub(crate) source: String,
    /// Which figure of the source; none when the experiment has no published figure.
    pub(crate) figure: Option<String>,
    /// What it shows, in our words.
    pub(crate) shows: String,
    /// What the source says of it in words, as far as that is known, in ours.
    pub(crate) says: Option<String>,
    /// What its horizontal axis says, when there are series.
    #[serde(default)]
    pub(crate) x_label: String,
    /// What its vertical axis says, when there are series.
    #[serde(default)]
    pub(crate) y_label: String,
    /// Its lines, as far as their values are known.
    #[serde(default)]
    pub(crate) series: Vec<PublishedSeries>,
}

/// One line of a published figure.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedSeries {
    /// Its name.
    pub(crate) name: String,
    /// Horizontal and vertical value of each point.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The figures that come with the program.
macro_rules! figures {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// Names of published figures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Name { $($name),* }

        impl Name {
            /// All of them.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => include_str!(concat!("../../published/", $file)),)*
                }
            }
        }
    };
}

figures! {
    SmallOps = "small-ops.toml",
    CreateDs = "create-ds.toml",
    CreateProcesses = "create-processes.toml",
    SequentialWrite = "sequential-write.toml",
    SequentialRead = "sequential-read.toml",
    ZipfDisk = "zipf-disk.toml",
    ZipfMemory = "zipf-memory.toml",
    Btio = "btio.toml",
    Records = "records.toml",
    RecordsOps = "records-ops.toml",
    Threads = "threads.toml",
    ThreadsOps = "threads-ops.toml",
    Cached = "cached.toml",
    Clients = "clients.toml",
    Sweep = "sweep.toml",
    Metadata = "metadata.toml",
    Incast = "incast.toml",
}

impl Published {
    /// Where the figure is to be found and what is known of it, in words.
    pub(crate) fn reference(&self) -> String {
        let Some(figure) = &self.figure else {
            return format!("no figure; {}", self.source);
        };
        let mut text = format!("{}, {figure}", self.source);
        if self.series.is_empty() {
            text += "; its values are not known to us, so none are shown";
        }
        if let Some(says) = &self.says {
            text += &format!("; it says: {says}");
        }
        text
    }

    /// Its values in words, a line for each series.
    pub(crate) fn values(&self) -> Vec<String> {
        let point = |(x, y): &(f64, f64)| format!("{y} {} at {x} {}", self.y_label, self.x_label);
        let line = |series: &PublishedSeries| {
            let points: Vec<String> = series.points.iter().map(point).collect();
            format!("{}: {}", series.name, points.join(", "))
        };
        self.series.iter().map(line).collect()
    }
}

impl Name {
    /// The figure.
    pub(crate) fn load(self) -> Published {
        parse(self.text()).expect("a file of this source tree, which a test has read")
    }
}

fn parse(text: &str) -> Result<Published, toml::de::Error> {
    toml::from_str(text)
}

#[cfg(test)]
mod tests {
    //! The files are well-formed, and what is known of a figure is read.
    use super::*;

    #[test]
    fn all_files_are_read() {
        for name in Name::ALL {
            let figure = name.load();
            assert!(!figure.source.is_empty(), "{name:?}");
            assert!(figure.figure.is_some() || figure.series.is_empty());
            for series in &figure.series {
                assert!(!series.points.is_empty(), "{name:?} {}", series.name);
                assert!(!figure.x_label.is_empty() && !figure.y_label.is_empty());
            }
        }
    }

    #[test]
    fn series_have_points() {
        let text = "source = \"A\"\nfigure = \"fig. 1\"\nshows = \"B\"\nx_label = \"x\"\ny_label = \"y\"\n\
                    [[series]]\nname = \"one\"\npoints = [[1.0, 2.5], [2.0, 3.0]]\n";
        let figure = parse(text).unwrap();
        assert_eq!(figure.series[0].points, [(1.0, 2.5), (2.0, 3.0)]);
        assert_eq!(figure.values(), ["one: 2.5 y at 1 x, 3 y at 2 x"]);
        assert_eq!(figure.reference(), "A, fig. 1");
        let unknown = "source = \"A\"\nfigure = \"fig. 1\"\nshows = \"B\"\nsays = \"more\"\n";
        let text = parse(unknown).unwrap().reference();
        assert!(
            text.ends_with("not known to us, so none are shown; it says: more"),
            "{text}"
        );
        assert!(parse("source = \"A\"").is_err());
    }
}
