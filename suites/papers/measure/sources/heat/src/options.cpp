// SPDX-FileCopyrightText: The Cabane developers
// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "options.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>
#ifdef HAVE_CHARCONV
#include <charconv>
#endif

namespace {

int number(const std::string &name, const std::string &text) {
    int value = 0;
#ifdef HAVE_CHARCONV
    const auto end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    const bool is_whole = read.ec == std::errc() && read.ptr == end;
#else
    std::istringstream stream(text);
    const bool is_whole = (stream >> value) && stream.eof();
#endif
    if (!is_whole || value < 1) throw std::invalid_argument(name + " needs a whole number above 0, not " + text);
    return value;
}

}

Problem read_options(const std::vector<std::string> &words) {
    Problem problem;
    const std::map<std::string, int *> known = {
        {"--points", &problem.points}, {"--steps", &problem.steps}, {"--half", &problem.half}};
    for (auto word = words.begin(); word != words.end(); ++word) {
        const auto found = known.find(*word);
        if (found == known.end()) throw std::invalid_argument("unknown option " + *word);
        const std::string &name = *word;
        if (++word == words.end()) throw std::invalid_argument(name + " needs a number");
        *found->second = number(name, *word);
    }
    return problem;
}
