// What every measurement takes on its command line.
// Thread: immutable.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace towpath::bench {

enum class Effort { quick, usual, full };

struct Options {
  Effort effort = Effort::usual;
  int rounds = 0;       ///< 0: as the effort says
  std::string only;     ///< a part of "title: name"; empty: all
  std::string json;     ///< a file to write; empty: none
  std::string command;  ///< as it was called, for the report

  int rounds_or(int quick, int usual, int full) const;
};

/// An option that only one measurement has.
struct TextOption {
  std::string flag;
  std::string help;
  std::string* value = nullptr;
};

struct Arguments {
  int count = 0;
  char** values = nullptr;
};

/// Nothing: help was printed, or the arguments were wrong (`status` says which, for main()).
std::optional<Options> parse(const std::string& about, Arguments arguments, int& status,
                             const std::vector<TextOption>& more = {});

}  // namespace towpath::bench
