// The screen of `towpath top`: what nodes do, as a person reads it. Thread: any.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tools/table.h"
#include "tools/top/activity.h"

namespace towpath::tools {

struct NodeView {
  std::string name;  ///< of the agent, or of the file
  std::uint64_t process = 0;
  bool runs = false;
  Activity activity;
};

std::string screen_text(const NodeView& node, Colours colours);
nlohmann::ordered_json screen_json(const NodeView& node);

}  // namespace towpath::tools
