// Setting: what a process may be given from outside, as a row of a table: each file that reads
// variables has its rows beside what reads them, `towpath doctor --settings` shows all
// (configuration.h). Thread: immutable.
#pragma once

#include <string_view>

namespace towpath::standard {

struct Setting {
  std::string_view name;    ///< behind NIXL_ or TOWPATH_; the latter wins
  std::string_view values;  ///< what it may be
  std::string_view unset;   ///< what holds when nobody gives it
  std::string_view what;    ///< it is for
  bool is_ours = false;     ///< behind TOWPATH_ alone
};

}  // namespace towpath::standard
