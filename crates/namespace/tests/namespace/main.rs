//! Goal: names, attributes, lists and directories behave as POSIX and RFC 8881 say; each module says which part.
//! Method: a name space over the store in memory, without a server. One program: it is compiled and linked once.

mod acls;
mod common;
mod create;
mod data;
mod foreign;
mod inline;
mod layout_policy;
mod observed;
mod readdir;
mod rename;
mod setattr;
mod xattrs;
