#include <towpath/core/format.h>
#include <towpath/rendezvous/etcd_keys.h>

namespace towpath::rendezvous::etcd {

namespace {

constexpr std::string_view kMetadata = "/metadata";
constexpr std::string_view kPart = "/part/";

int digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return -1;
}

// What path_safe() made `text` from; nothing: it made no such text.
std::optional<std::string> unsafe(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      bytes.push_back(text[at]);
      continue;
    }
    if (at + 2 >= text.size()) return {};
    const int high = digit(text[at + 1]);
    const int low = digit(text[at + 2]);
    if (high < 0 || low < 0) return {};
    bytes.push_back(static_cast<char>(high * 16 + low));
    at += 2;
  }
  if (path_safe(bytes) != text) return {};
  return bytes;
}

}  // namespace

Result<Keys> Keys::in(std::string_view name_space) {
  std::string prefix(name_space);
  while (prefix.ends_with('/')) prefix.pop_back();
  if (prefix.empty() || prefix.size() > 512 || prefix.find('\0') != std::string::npos)
    return error(Code::invalid_argument, cat("'", printable(name_space), "' is no namespace"),
                 "use something like /towpath/my-job, up to 512 bytes");
  return Keys(prefix + "/");
}

std::string Keys::key(const MetadataName& name) const {
  const std::string agent = cat(prefix_, path_safe(name.agent));
  return name.label.empty() ? cat(agent, kMetadata) : cat(agent, kPart, path_safe(name.label));
}

std::optional<MetadataName> Keys::name(std::string_view key) const {
  if (!key.starts_with(prefix_)) return {};
  const std::string_view rest = key.substr(prefix_.size());
  const std::string_view agent = rest.substr(0, rest.find('/'));
  const std::string_view kind = rest.substr(agent.size());
  const auto who = unsafe(agent);
  if (!who) return {};
  MetadataName name(*who);
  if (kind.starts_with(kPart)) {
    const auto label = unsafe(kind.substr(kPart.size()));
    if (!label || label->empty()) return {};
    name.label = *label;
  } else if (kind != kMetadata) {
    return {};
  }
  if (!check_name(name).ok()) return {};
  return name;
}

}  // namespace towpath::rendezvous::etcd
