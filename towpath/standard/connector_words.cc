#include <towpath/standard/connector_words.h>

namespace towpath::standard {

Status apply(const ConnectorWords& words, ConnectorNodeOptions& options) {
  if (!words.policy.empty()) {
    TOWPATH_TRY(options.cache.policy, kv::policy_named(words.policy));
  }
  if (!words.digest.empty()) {
    TOWPATH_TRY(options.digest, kv::digest_named(words.digest));
  }
  if (words.min_accesses != 0) options.cache.admission.min_accesses = words.min_accesses;
  return {};
}

}  // namespace towpath::standard
