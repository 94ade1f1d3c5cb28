#include <array>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/kv/eviction/policies.h>

namespace towpath::kv {

std::string_view name_of(PolicyKind kind) noexcept {
  switch (kind) {
    case PolicyKind::lru: return "lru";
    case PolicyKind::fifo: return "fifo";
    case PolicyKind::s3_fifo: return "s3-fifo";
    case PolicyKind::lfu: return "lfu";
    case PolicyKind::multi_lru: return "multi-lru";
    case PolicyKind::lineage: return "lineage";
    case PolicyKind::hit_density: return "hit-density";
    case PolicyKind::adaptive: return "adaptive";
  }
  return "unknown";
}

std::span<const PolicyKind> all_policies() noexcept {
  static constexpr std::array kAll{
      PolicyKind::lru,       PolicyKind::fifo,    PolicyKind::s3_fifo,     PolicyKind::lfu,
      PolicyKind::multi_lru, PolicyKind::lineage, PolicyKind::hit_density, PolicyKind::adaptive};
  return kAll;
}

Result<PolicyKind> policy_named(std::string_view name) {
  std::string known;
  for (const PolicyKind kind : all_policies()) {
    if (name == name_of(kind)) return kind;
    known += cat(known.empty() ? "" : ", ", name_of(kind));
  }
  return error(Code::invalid_argument, cat("no eviction policy is called '", printable(name), "'"),
               cat("use one of ", known));
}

std::unique_ptr<EvictionPolicy> make_policy(PolicyKind kind, SlotId slots) {
  switch (kind) {
    case PolicyKind::lru: return make_lru(slots);
    case PolicyKind::fifo: return make_fifo(slots);
    case PolicyKind::s3_fifo: return make_s3_fifo(slots);
    case PolicyKind::lfu: return make_lfu(slots);
    case PolicyKind::multi_lru: return make_multi_lru(slots);
    case PolicyKind::lineage: return make_lineage(slots);
    case PolicyKind::hit_density: return make_hit_density(slots);
    case PolicyKind::adaptive: return make_adaptive(slots);
  }
  TOWPATH_CHECK(false, "not a policy");
  return nullptr;
}

}  // namespace towpath::kv
