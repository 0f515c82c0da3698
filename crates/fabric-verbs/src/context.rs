//! What is asked of an open device by its context.

use crate::library::Api;
use crate::sys::{Context, DeviceAttr, PortAttr};
use std::ffi::CStr;
use std::io;

/// # Safety
/// The context is open.
pub(crate) unsafe fn name(context: *mut Context) -> String {
    // SAFETY: an open context has a device, whose name ends with a zero.
    let name = unsafe { CStr::from_ptr((*(*context).device).name.as_ptr()) };
    name.to_string_lossy().into_owned()
}

/// # Safety
/// The context is open.
pub(crate) unsafe fn attributes(api: &Api, context: *mut Context) -> io::Result<DeviceAttr> {
    // SAFETY: all zeros are a value of this type: numbers and arrays of numbers.
    let mut attr: DeviceAttr = unsafe { std::mem::zeroed() };
    // SAFETY: the context is open, and `attr` is what the function fills.
    check(unsafe { (api.verbs.ibv_query_device)(context, &raw mut attr) })?;
    Ok(attr)
}

/// # Safety
/// The context is open.
pub(crate) unsafe fn port(api: &Api, context: *mut Context, number: u8) -> io::Result<PortAttr> {
    let mut attr = PortAttr::default();
    // SAFETY: the context is open, and `attr` is what the function fills.
    check(unsafe { (api.verbs.ibv_query_port)(context, number, &raw mut attr) })?;
    Ok(attr)
}

/// The error of a function that gives 0 or an error number. Some drivers give it negative.
pub(crate) fn check(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        e => Err(io::Error::from_raw_os_error(e.abs())),
    }
}
