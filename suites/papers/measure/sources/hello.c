/* SPDX-FileCopyrightText: The Cabane developers
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <stdio.h>

int main(void) {
    puts("hello");
    return 0;
}
