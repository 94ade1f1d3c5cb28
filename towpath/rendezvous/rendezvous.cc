#include <towpath/core/format.h>
#include <towpath/rendezvous/rendezvous.h>

namespace towpath::rendezvous {

std::string to_string(const MetadataName& name) {
  std::string text = cat("'", printable(name.agent), "'");
  return name.label.empty() ? text : cat(text, ", part '", printable(name.label), "'");
}

Status check_name(const MetadataName& name) {
  if (name.agent.empty() || name.agent.size() > kMaxAgentName)
    return error(Code::invalid_argument, cat("a name of ", name.agent.size(), " bytes"),
                 cat("use 1 to ", kMaxAgentName, " bytes"));
  if (name.label.size() <= kMaxLabel) return {};
  return error(Code::invalid_argument, cat("a label of ", name.label.size(), " bytes"),
               cat("use at most ", kMaxLabel, " bytes"));
}

Status check_metadata(ConstByteSpan metadata, std::size_t limit_bytes) {
  if (metadata.size() <= limit_bytes) return {};
  return error(
      Code::out_of_range,
      cat("metadata of ", metadata.size(), " bytes; at most ", limit_bytes, " are carried"),
      "register fewer regions, or send the metadata in parts");
}

Status taken_by_another(const MetadataName& name) {
  return error(Code::already_exists, cat("another has published ", to_string(name)),
               "give each agent a name of its own, or stop the other");
}

}  // namespace towpath::rendezvous
