// SPDX-License-Identifier: GPL-3.0-or-later
//! Asking for memory before it is needed. A thousand calls' state does not stay in a core's cache
//! over a tick; while one call is dealt with (a system call, mostly), the next one's comes.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Has the lines of `value` fetched, as far as the processor likes. Changes nothing.
#[inline]
pub(crate) fn prefetch<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<i8>();
    for at in (0..std::mem::size_of_val(value)).step_by(LINE) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of x86_64.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = start.wrapping_add(at);
    }
}
