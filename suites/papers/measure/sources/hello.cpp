// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include <iostream>

int main() {
    std::cout << "hello\n";
}
