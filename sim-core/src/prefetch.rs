//! A hint to the processor.

/// Asks for the cache line in which `value` begins, which will be needed soon. It changes nothing
/// else, and does nothing on processors other than x86-64.
///
/// On fabrics of a thousand hosts and more, waiting for memory is most of a run's time.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is that of a reference, and a prefetch does not access it
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch(std::ptr::from_ref(value).cast(), _MM_HINT_T0);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
