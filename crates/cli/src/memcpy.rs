// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT

//! `memcpy` and `memmove` in the place of musl's, which copy even a few bytes with `rep movsq`:
//! lists of images took twice as long (`docs/design/0005-the-helper.md`). Both are one function: what
//! a write could change is read before it.

core::arch::global_asm!(
    // Like every function it has a section, so that the linker can place it.
    ".pushsection .text.memcpy, \"ax\", @progbits",
    ".globl memcpy, memmove",
    ".type memcpy, @function; .type memmove, @function",
    "memcpy: memmove:",
    "mov rax, rdi",
    "cmp rdx, 16; jae 5f",
    "cmp edx, 8; jae 4f",
    "cmp edx, 4; jae 3f",
    "test edx, edx; jz 2f",
    // 1 to 3 bytes: the first, the one in the middle, the last.
    "mov rcx, rdx; shr rcx",
    "movzx r8d, byte ptr [rsi]; movzx r9d, byte ptr [rsi + rcx]",
    "movzx esi, byte ptr [rsi + rdx - 1]",
    "mov [rdi], r8b; mov [rdi + rcx], r9b; mov [rdi + rdx - 1], sil",
    "2: ret",
    "3: mov ecx, [rsi]; mov esi, [rsi + rdx - 4]",
    "mov [rdi], ecx; mov [rdi + rdx - 4], esi; ret",
    "4: mov rcx, [rsi]; mov rsi, [rsi + rdx - 8]",
    "mov [rdi], rcx; mov [rdi + rdx - 8], rsi; ret",
    "5: movups xmm0, [rsi]; movups xmm1, [rsi + rdx - 16]",
    "lea r8, [rdi + rdx - 16]",
    "cmp rdx, 32; jbe 7f",
    "mov rcx, rdi; sub rcx, rsi; cmp rcx, rdx; jb 8f",
    // Forwards, all but the last 16.
    "cmp rdx, 512; jae 9f",
    "6: movups xmm0, [rsi]; movups [rdi], xmm0",
    "add rsi, 16; add rdi, 16; cmp rdi, r8; jb 6b",
    "movups [r8], xmm1; ret",
    "7: movups [rdi], xmm0; movups [r8], xmm1; ret",
    // Backwards, all but the first 16, where the target begins in the source.
    "8: movups xmm1, [rsi + rdx - 16]; movups [rdi + rdx - 16], xmm1",
    "sub rdx, 16; cmp rdx, 16; ja 8b",
    "movups [rdi], xmm0; ret",
    // From 512 bytes on the processor is as fast by itself.
    "9: lea rcx, [rdx - 1]; shr rcx, 3; rep movsq; movups [r8], xmm1; ret",
    ".size memcpy, . - memcpy; .size memmove, . - memmove",
    ".popsection",
);

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    #[test]
    fn every_length_is_copied_in_both_directions() {
        let bytes: Vec<u8> = (0..800_u32).map(|number| (number % 251) as u8).collect();
        for (from, to) in (0..36).flat_map(|from| (0..36).map(move |to| (from, to))) {
            for length in (0..70).chain([100, 127, 128, 129, 255, 320, 511, 512, 513, 700]) {
                let mut copy = bytes.clone();
                copy.copy_within(from..from + black_box(length), to);
                let moved = |place: usize| bytes[place - to + from];
                let expected = |place| {
                    if (to..to + length).contains(&place) { moved(place) } else { bytes[place] }
                };
                assert!(
                    (0..bytes.len()).all(|place| copy[place] == expected(place)),
                    "{from} {to} {length}"
                );
            }
        }
    }
}
