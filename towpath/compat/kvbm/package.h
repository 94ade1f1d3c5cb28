// KVBM v2's packed metadata (its SerializedLayout): the layouts of one worker, with the NIXL
// metadata of the agent that registered them. The format: docs/formats/kvbm_layout.md.
//
//   manager->import_package(*package_from_kvbm(bytes));            // theirs, here
//   send(*package_to_kvbm(*manager->export_package(), worker));    // ours, there
//
// The NIXL metadata is of use only where it is metadata of Towpath's, as our libnixl_capi gives it
// to KVBM: then its layouts are those of any peer. A blob of NIXL's own library is refused by name,
// for no agent of ours could reach what it reports.
//
// What comes in is hostile: bounded before anything is allocated, and proven as our own packages
// are (blockcopy/layout_package.h). Thread: any.
#pragma once

#include <cstdint>
#include <optional>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout_config.h>

namespace towpath::kvbm {

/// A package of ours with the same layouts: ids are KVBM's layout ids, tiers "g1" to "g4".
/// `unknown_order` as in Terms.
/// Errors: as BincodeReader and descriptor_of(); unsupported (metadata that is no metadata; another
/// version; what later releases of KVBM append, which also number the orders of blocks anew);
/// invalid_argument (a layout of another worker or agent than the package's; an id twice).
Result<Bytes> package_from_kvbm(ConstByteSpan packed,
                                std::optional<layout::BlockFormat> unknown_order = std::nullopt);

/// `package`: as TransferManager::export_package() gives it. `worker_id`: who KVBM shall take the
/// agent for. Errors: as blockcopy::open_package() and kvbm_words_of(); unsupported (a tier but
/// "g1" to "g4", an id above 65,535, a share of layers or heads that does not begin at 0).
Result<Bytes> package_to_kvbm(ConstByteSpan package, std::uint64_t worker_id);

}  // namespace towpath::kvbm
