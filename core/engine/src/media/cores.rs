// SPDX-License-Identifier: GPL-3.0-or-later
//! Which cores the kernel keeps free for threads that ask for them (`isolcpus=`).

use rustix::thread::CpuSet;

/// The isolated cores, ascending; none where the kernel does not tell.
pub(crate) fn isolated() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/isolated");
    text.map_or_else(|_| Vec::new(), |text| parse(&text))
}

/// A kernel list of CPUs, such as "1-3,8". What is no number is left out.
fn parse(text: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cores.extend(first..=last.min(CpuSet::MAX_CPU - 1));
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(parse("\n"), []);
        assert_eq!(parse("3\n"), [3]);
        assert_eq!(parse("1-3,8,10-11\n"), [1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("2-4294967295").len(), CpuSet::MAX_CPU - 2);
    }
}
