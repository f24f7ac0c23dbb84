//! libibverbs, opened at run time: no library is needed to build rocesim, nor to run anything but
//! RDMA.

use std::os::raw::{c_char, c_int};
use std::sync::OnceLock;

use libloading::Library;

use super::VerbsError;
use super::sys::{
    _compat_ibv_port_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_mr, ibv_pd,
    ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_wc_status,
};

/// Names under which distributions have it.
const NAMES: [&str; 2] = ["libibverbs.so.1", "libibverbs.so"];

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// Functions of the library. Verbs that are inline in C go by [`ibv_context`]'s `ops`.
        pub(super) struct Verbs {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Absent before rdma-core 34.
            pub ibv_reg_dmabuf_mr: Option<RegDmabuf>,
            /// Must outlive the functions.
            _library: Library,
        }

        impl Verbs {
            fn new(library: Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the library's header, which it keeps stable.
                unsafe {
                    Ok(Verbs {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                        ibv_reg_dmabuf_mr: library.get(b"ibv_reg_dmabuf_mr\0").ok().map(|f| *f),
                        _library: library,
                    })
                }
            }
        }
    };
}

pub(super) type RegDmabuf =
    unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;

functions! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list: fn(*mut *mut ibv_device) -> ();
    ibv_get_device_name: fn(*mut ibv_device) -> *const c_char;
    ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device: fn(*mut ibv_context) -> c_int;
    ibv_query_port: fn(*mut ibv_context, u8, *mut _compat_ibv_port_attr) -> c_int;
    ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ibv_pd, *mut std::ffi::c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
    ibv_create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
    ibv_create_cq: fn(*mut ibv_context, c_int, *mut std::ffi::c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
    ibv_get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut std::ffi::c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut ibv_cq, std::os::raw::c_uint) -> ();
    ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
    ibv_wc_status_str: fn(ibv_wc_status) -> *const c_char;
}

/// The library, opened once.
pub(super) fn verbs() -> Result<&'static Verbs, VerbsError> {
    static OPENED: OnceLock<Result<Verbs, String>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| {
        let mut why = String::new();
        for name in NAMES {
            // SAFETY: libibverbs' initialisers do nothing but read its configuration.
            match unsafe { Library::new(name) } {
                Ok(library) => return Verbs::new(library).map_err(|error| error.to_string()),
                Err(error) if why.is_empty() => why = error.to_string(),
                Err(_) => {}
            }
        }
        Err(why)
    });
    opened.as_ref().map_err(|why| VerbsError::Library(why.clone()))
}
