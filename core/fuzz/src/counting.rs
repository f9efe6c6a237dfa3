// SPDX-License-Identifier: GPL-3.0-or-later
//! Counts allocations of Rust, so that a target can demand that the media path makes none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more, and nobody asks for it.
    let _ = COUNT.try_with(|c| c.set(c.get() + 1));
}

// SAFETY: everything is System's, which keeps the promises of GlobalAlloc; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is System's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `part`, which must neither allocate nor free.
pub(crate) fn without_allocation<T>(what: &str, part: impl FnOnce() -> T) -> T {
    let before = COUNT.with(Cell::get);
    let result = part();
    assert_eq!(COUNT.with(Cell::get), before, "{what} allocates or frees");
    result
}
