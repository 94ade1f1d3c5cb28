#include <algorithm>

#include <towpath/backend/registry.h>
#include <towpath/core/format.h>

namespace towpath::backend {
namespace {

template <typename Range, typename Name>
std::string join(const Range& items, Name name) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out.append(", ");
    out.append(name(item));
  }
  return out.empty() ? "none" : out;
}

}  // namespace

telemetry::Log BackendContext::log_as(std::string_view backend) const {
  if (log == nullptr || clock == nullptr) return {};
  return {*log, *clock, cat(backend, " ", printable(self.name))};
}

Status Registry::add(BackendType type) {
  if (type.name.empty() || type.name != lower(type.name) || !type.open) {
    return error(Code::invalid_argument, cat("backend type '", printable(type.name),
                                             "' needs a lower-case name and open()"));
  }
  if (find(type.name).ok())
    return error(Code::already_exists, cat("a backend type '", type.name, "' exists"));
  types_.push_back(std::move(type));
  return {};
}

Status Registry::alias(std::string_view alias, std::string_view name) {
  TOWPATH_TRY(const BackendType* type, find(name));
  if (auto taken = find(alias); taken.ok() && *taken != type)
    return error(Code::already_exists, cat("'", printable(alias), "' means ", (*taken)->name));
  aliases_.emplace_back(lower(alias), type->name);
  return {};
}

Result<const BackendType*> Registry::find(std::string_view name) const {
  std::string folded = lower(name);
  for (const auto& [alias, target] : aliases_) {
    if (alias == folded) folded = target;
  }
  for (const BackendType& type : types_) {
    if (type.name == folded) return &type;
  }
  return error(Code::not_found, cat("no backend type '", printable(name), "'"),
               cat("use one of: ", join(types_, [](const auto& type) { return type.name; })));
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> names;
  for (const BackendType& type : types_) names.push_back(type.name);
  return names;
}

Result<std::unique_ptr<Backend>> Registry::open(std::string_view name,
                                                const BackendContext& context) const {
  TOWPATH_TRY(const BackendType* type, find(name));
  for (const auto& [key, value] : context.params) {
    const bool known =
        std::ranges::any_of(type->params, [&](const ParamInfo& p) { return p.name == key; });
    if (!known) {
      return error(Code::invalid_argument,
                   cat("backend ", type->name, " has no parameter '", printable(key), "'"),
                   cat("it reads: ", join(type->params, [](const auto& p) { return p.name; })));
    }
  }
  return type->open(context);
}

}  // namespace towpath::backend
