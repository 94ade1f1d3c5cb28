// KVBM's settings of a worker's tiers, as those of a ConnectorNode.
//
//   TOWPATH_TRY(kvbm::apply("", standard::read_environment(), options));
//
// Thread: any.
#pragma once

#include <string>

#include <towpath/compat/kvbm/settings.h>
#include <towpath/standard/connector_node.h>

namespace towpath::kvbm {

/// Tiers that the settings do not name stay as they were in `options`, which say the shape of the
/// engine's cache. Errors: those of Settings::shape().
Status apply(const Settings& settings, standard::ConnectorNodeOptions& options);

/// The same of KVBM's variables and files, and of `json` over those, which vLLM has as
/// `kv_connector_extra_config`; empty: of none. Errors: those of Settings::read(), too.
Status apply(const std::string& json, const standard::Environment& environment,
             standard::ConnectorNodeOptions& options);

}  // namespace towpath::kvbm
