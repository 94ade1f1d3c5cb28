#include "tools/bench/remote.h"

#include <towpath/core/format.h>

namespace towpath::tools::bench {
namespace {

class PeerRemote final : public Remote {
 public:
  PeerRemote(Meeting& meeting, Duration timeout, const Message& ready)
      : meeting_(meeting),
        timeout_(timeout),
        kind_(ready.memory),
        remark_(ready.text),
        begin_{ready.address, ready.bytes, ready.device_id} {}

  const std::string& peer() const override { return name_; }
  MemoryKind kind() const override { return kind_; }
  Status add(DescriptorList& list, const StridedDescriptor& blocks) const override {
    return add_from(begin_, list, blocks);
  }
  std::string what() const override {
    return cat(remark_, name_of(kind_), " memory of the target");
  }

  Result<Duration> prepare(const Blocks& blocks, Before before) override {
    Message message{.kind = MessageKind::prepare,
                    .bytes = blocks.area_bytes(),
                    .fill = before == Before::pattern};
    message.blocks.seed = blocks.seed;
    TOWPATH_TRY(const Message answer, ask(message, MessageKind::prepared));
    return Duration(static_cast<std::int64_t>(answer.cpu_ns & INT64_MAX));
  }

  Result<Looked> look(const Blocks& blocks) override {
    TOWPATH_TRY(const Message answer,
                ask({.kind = MessageKind::check, .blocks = blocks}, MessageKind::checked));
    Looked looked{.cpu = Duration(static_cast<std::int64_t>(answer.cpu_ns & INT64_MAX))};
    if (answer.wrong) looked.wrong = answer.wrong_at;
    return looked;
  }

 private:
  Result<Message> ask(const Message& message, MessageKind answer) {
    TOWPATH_TRY(meeting_.send(name_, message));
    return meeting_.receive(name_, answer, timeout_);
  }

  Meeting& meeting_;
  const Duration timeout_;
  const MemoryKind kind_;
  const std::string remark_;
  const Descriptor begin_;
  const std::string name_ = kTarget;
};

}  // namespace

Status check_other_side(const Options& options) {
  if (options.one_process && !(options.connect.empty() && options.listen.empty()))
    return error(Code::invalid_argument,
                 "with --one_process the other side is here: --connect and --listen are for others",
                 "leave one of them out");
  const bool is_drive = options.remote == MemoryKind::block || options.local == MemoryKind::block;
  if (is_drive && options.drive.empty())
    return error(Code::invalid_argument, "which drive it is must be given",
                 "name an unused drive: --drive /dev/ng0n1 --overwrite_drive");
  if (!is_storage(options.remote)) return {};
  if (!options.connect.empty() || !options.listen.empty())
    return error(Code::invalid_argument, "storage is this process' own: it needs no other host",
                 "leave out --connect and --listen, or name memory of the other host");
  return {};
}

Status check_places(const Options& options) {
  const Options usual;
  const struct {
    const char* flag;
    bool is_given;
    MemoryKind kind;
  } places[] = {{"--filename", !options.file.empty(), MemoryKind::disk},
                {"--filepath", options.directory != usual.directory, MemoryKind::disk},
                {"--storage_enable_direct", options.direct, MemoryKind::disk},
                {"--drive", !options.drive.empty(), MemoryKind::block}};
  for (const auto& place : places) {
    const bool is_used = options.remote == place.kind || options.local == place.kind;
    if (!place.is_given || is_used) continue;
    return error(Code::invalid_argument,
                 cat(place.flag, " is given, and no memory is ", name_of(place.kind), ": it is ",
                     name_of(options.local), " here, and ", name_of(options.remote), " there"),
                 "leave it out, or name that kind of memory");
  }
  return {};
}

Status check_overwriting(const Options& options) {
  if (options.remote != MemoryKind::block || options.overwrite_drive) return {};
  return error(
      Code::invalid_argument,
      cat("measuring overwrites the begin of ", printable(options.drive, 256), ", also for reads"),
      "name an unused drive: --drive /dev/ng0n1 --overwrite_drive");
}

Result<std::unique_ptr<Remote>> open_remote(const Options& options, standard::Node& node,
                                            Meeting* meeting, const Room& room) {
  agent::Agent& agent = node.agent();
  switch (options.remote) {
    case MemoryKind::disk: return open_file_remote(agent, options, room.bytes);
    case MemoryKind::block: return open_block_remote(agent, options, room.bytes);
    case MemoryKind::object: return open_object_remote(agent, options, room.blocks, node.clock());
    default: return open_peer_remote(*meeting, agent, options, room.bytes);
  }
}

Status add_from(const Descriptor& begin, DescriptorList& list, StridedDescriptor blocks) {
  blocks.address += begin.address;
  blocks.device_id = begin.device_id;
  return list.add(blocks);
}

Result<std::unique_ptr<Remote>> open_peer_remote(Meeting& meeting, agent::Agent& agent,
                                                 const Options& options, std::uint64_t bytes) {
  TOWPATH_TRY(meeting.send(kTarget,
                           {.kind = MessageKind::hello, .bytes = bytes, .memory = options.remote}));
  TOWPATH_TRY(const Message ready, meeting.receive(kTarget, MessageKind::ready, options.timeout));
  TOWPATH_TRY(agent.load_metadata(ready.metadata));
  if (ready.bytes < bytes || ready.memory != options.remote)
    return error(Code::corrupt,
                 cat("the target offers ", ready.bytes, " bytes of ", name_of(ready.memory),
                     " memory where ", bytes, " of ", name_of(options.remote), " were asked for"),
                 "use the same release of Towpath on both sides");
  return std::unique_ptr<Remote>(std::make_unique<PeerRemote>(meeting, options.timeout, ready));
}

}  // namespace towpath::tools::bench
