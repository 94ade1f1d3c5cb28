#include <algorithm>

#include <towpath/backend/conformance/candidate.h>
#include <towpath/core/format.h>

namespace towpath::backend::conformance {
namespace {

// Names of GoogleTest's parameters have letters, digits and underscores.
std::string as_name(std::string text) {
  std::ranges::replace(text, '-', '_');
  std::ranges::replace(text, '+', '_');
  return text;
}

}  // namespace

std::string_view name_of(Store store) noexcept {
  switch (store) {
    case Store::system: return "system";
    case Store::shared: return "shared";
    case Store::disk: return "disk";
    case Store::block: return "block";
    case Store::object: return "object";
    case Store::device: return "device";
  }
  return "unknown";
}

std::string to_string(const Pairing& pairing) {
  return cat(name_of(pairing.near), "_", name_of(pairing.far), pairing.to_self ? "_self" : "_peer");
}

std::vector<CandidateParam> all_candidates() {
  std::vector<CandidateParam> all;
  for (Candidate& candidate : candidates())
    all.push_back({std::make_shared<const Candidate>(std::move(candidate))});
  return all;
}

std::vector<PairingParam> all_pairings() {
  std::vector<PairingParam> all;
  for (const CandidateParam& param : all_candidates()) {
    for (const Pairing& pairing : param.candidate->pairings)
      all.push_back({param.candidate, pairing});
  }
  return all;
}

std::vector<PairingParam> peer_pairings() {
  std::vector<PairingParam> all = all_pairings();
  std::erase_if(all, [](const PairingParam& param) { return param.pairing.to_self; });
  return all;
}

std::string label_of(const CandidateParam& param) { return as_name(param.candidate->name); }
std::string label_of(const PairingParam& param) {
  return as_name(cat(param.candidate->name, "_", to_string(param.pairing)));
}

}  // namespace towpath::backend::conformance
