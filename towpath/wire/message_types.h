// What an envelope can hold, as numbers that lie on disks and cross to other versions.
//
// Never renumber, never reuse; append. A message also has a version of its own (envelope.h): it
// grows only when an old reader must refuse the whole message; a new field needs no new version.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string_view>

namespace towpath::wire {

enum class MessageType : std::uint16_t {
  metadata = 1,          ///< what an agent gives its peers
  notification = 2,      ///< a user's message, bound to a transfer or alone
  layout = 3,            ///< the geometry of a KV cache
  block_header = 4,      ///< what stands before a block on disk
  peer_hello = 5,        ///< the first words of two agents on a connection
  rendezvous_frame = 6,  ///< a request or reply of a rendezvous
  connection_info = 7,   ///< how one backend of an agent is reached: a part of its metadata
  replay_control = 8,    ///< what the processes of `towpath replay` say to each other
  memory_key = 9,        ///< how one backend of an agent reaches a region: a part of its metadata
  layout_package = 10,   ///< the caches of one agent, with its metadata
  pe_exchange = 11,      ///< what the PEs of a job exchange before it begins
  segment_header = 16,   ///< what a segment file of KV blocks begins with
  block_index = 17,      ///< where KV blocks lie in segments, so that a restart need not look
  step_orders = 20,      ///< what the workers of an engine shall load and save in a step
  worker_report = 21,    ///< what came of it, from one worker
  blob_header = 22,      ///< what a file of a named blob begins with
  block_lease = 23,      ///< what a lessee of KV blocks and their owner say to each other
  block_catalogue = 24,  ///< which KV blocks an agent grants, and from where
  drive_label = 25,      ///< what a drive begins with that holds stores of KV blocks
  drive_table = 26,      ///< which files lie where on it
};

/// The enumerator's own name; "unknown" for a value that this version does not know.
std::string_view name_of(MessageType type) noexcept;

}  // namespace towpath::wire
