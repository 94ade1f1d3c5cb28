#include "tools/bench/target.h"

#include <sys/resource.h>

#include <towpath/core/format.h>

#include "tools/bench/pattern.h"
#include "tools/command.h"

namespace towpath::tools::bench {
namespace {

// A target that listens waits for its initiator for as long as it takes, and looks up this often.
constexpr Duration kTimeout = std::chrono::hours(24);

}  // namespace

Duration cpu_time() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

Result<std::unique_ptr<Target>> Target::open(const Options& options, const Machine& machine) {
  TOWPATH_TRY(auto node, open_node(kTarget, options, {.registry = &machine.registry}));
  std::unique_ptr<Target> made(new Target(options, machine, std::move(node)));
  TOWPATH_TRY(made->meeting_, Meeting::open(options, made->node_->agent(), made->node_->clock()));
  return made;
}

Status Target::serve(const Alive& lives) {
  const Duration timeout = options_.listen.empty() ? options_.timeout : kTimeout;
  TOWPATH_TRY(meeting_->meet(kInitiator, timeout, lives));
  Status served = serve_messages();
  if (!served.ok() && served.code() != Code::peer_lost)
    (void)meeting_->send(
        kInitiator,
        {.kind = MessageKind::failed, .text = story_of(served), .hint = hint_of(served)});
  return served;
}

Status Target::serve_messages() {
  while (true) {
    TOWPATH_TRY(const Message message, meeting_->receive(kInitiator, kTimeout));
    if (message.kind == MessageKind::finish) {
      excuse_all(node_->agent());
      return {};
    }
    TOWPATH_TRY(const Message said, answer(message));
    TOWPATH_TRY(meeting_->send(kInitiator, said));
  }
}

Result<Message> Target::answer(const Message& message) {
  Message said{.cpu_ns = static_cast<std::uint64_t>(cpu_time().count())};
  if (message.kind == MessageKind::hello) return offer(message);
  if (message.kind == MessageKind::prepare && memory_ && message.bytes <= memory_->size()) {
    TOWPATH_TRY(message.fill ? memory_->fill(message.bytes, message.blocks.seed)
                             : memory_->poison(message.bytes));
    said.kind = MessageKind::prepared;
    said.cpu_ns = static_cast<std::uint64_t>(cpu_time().count());
    return said;
  }
  if (message.kind == MessageKind::check && memory_) {
    said.kind = MessageKind::checked;
    if (message.blocks.count == 0) return said;
    TOWPATH_TRY(const auto wrong, memory_->first_wrong(message.blocks));
    said.wrong = wrong.has_value();
    said.wrong_at = wrong.value_or(0);
    return said;
  }
  return error(Code::corrupt,
               cat("message ", static_cast<int>(message.kind), " makes no sense now"),
               "use the same release of Towpath on both sides");
}

Result<Message> Target::offer(const Message& hello) {
  if (hello.bytes == 0 || hello.bytes > options_.total_buffer_size)
    return error(Code::invalid_argument,
                 cat("the initiator asks for ", hello.bytes, " bytes; this side gives up to ",
                     options_.total_buffer_size),
                 "give both sides a larger --total_buffer_size, or measure smaller blocks");
  TOWPATH_TRY(memory_, OwnMemory::make(hello.memory, machine_, hello.bytes));
  TOWPATH_TRY(registration_, node_->agent().register_region(memory_->region()));
  const RegionDescriptor all = memory_->begin();
  Message ready{.kind = MessageKind::ready,
                .bytes = all.length,
                .address = all.address,
                .device_id = all.device_id,
                .memory = all.kind,
                .text = memory_->remark()};
  TOWPATH_TRY(ready.metadata, node_->agent().metadata());
  return ready;
}

}  // namespace towpath::tools::bench
