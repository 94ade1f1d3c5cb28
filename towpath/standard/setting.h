// Setting: what a process may be given from outside, as a row of a table: each file that reads
// variables has its rows beside what reads them, `towpath doctor --settings` shows all
// (configuration.h). Thread: immutable.
#pragma once

#include <string>
#include <string_view>

namespace towpath::standard {

struct Setting {
  std::string_view name;     ///< behind NIXL_ or TOWPATH_; the latter wins. Dialects have others
  std::string_view values;   ///< what it may be
  std::string_view unset;    ///< what holds when nobody gives it
  std::string_view what;     ///< it is for
  bool is_ours = false;      ///< behind TOWPATH_ alone
  bool is_secret = false;    ///< never shown
  bool is_variable = false;  ///< alone: where it is read there is no file
};

/// A setting as a process that started now would have it.
struct GivenSetting {
  Setting setting;
  std::string name{};    ///< of the variable, whole: "TOWPATH_LOG_LEVEL"
  std::string value{};   ///< as it was written
  std::string source{};  ///< the variable, or the file and its line; empty: nobody gives it
};

}  // namespace towpath::standard
