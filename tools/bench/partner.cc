#include "tools/bench/partner.h"

#include <towpath/core/format.h>

namespace towpath::tools::bench {

Partner partner_of(const Options& options) {
  if (is_storage(options.remote)) return Partner::oneself;
  if (!options.connect.empty()) return Partner::host;
  return options.one_process ? Partner::thread : Partner::child;
}

std::vector<std::string> child_arguments(const Options& options) {
  std::vector<std::string> argv{"towpath", "bench", "--role", "target"};
  const auto add = [&](const char* name, const std::string& value) {
    argv.emplace_back(name);
    argv.push_back(value);
  };
  add("--scope", options.scope);
  add("--timeout", cat(options.timeout / std::chrono::milliseconds(1) / 1000.0));
  add("--total_buffer_size", cat(options.total_buffer_size));
  add("--device", options.device);
  add("--backend", options.all_backends ? "all" : options.backend);
  return argv;
}

Status OpenPartner::start(const Options& options, const Machine& machine) {
  switch (partner_of(options)) {
    case Partner::child: {
      TOWPATH_TRY(Child child, Child::start("target", child_arguments(options)));
      what_ = cat("process ", child.pid(), " of this host");
      child_.emplace(std::move(child));
      return {};
    }
    case Partner::thread: {
      TOWPATH_TRY(target_, Target::open(options, machine));
      TOWPATH_TRY(run::Worker worker,
                  run::Worker::start("target", [this](const run::StopToken& stop) {
                    served_ = target_->serve([&stop]() -> Status {
                      if (!stop.stop_requested()) return {};
                      return error(Code::cancelled, "the initiator does not come");
                    });
                    serves_ = false;
                  }));
      worker_.emplace(std::move(worker));
      what_ = "another agent of this process";
      return {};
    }
    case Partner::host: what_ = options.connect; return {};
    case Partner::oneself: return {};
  }
  return {};
}

Result<std::unique_ptr<OpenPartner>> OpenPartner::open(const Options& options,
                                                       const Machine& machine,
                                                       standard::Node& node) {
  std::unique_ptr<OpenPartner> made(new OpenPartner());
  if (partner_of(options) == Partner::oneself) return made;
  TOWPATH_TRY(made->meeting_, Meeting::open(options, node.agent(), node.clock()));
  TOWPATH_TRY(made->start(options, machine));
  TOWPATH_TRY(made->meeting_->meet(kTarget, options.timeout,
                                   [&made]() -> Status { return made->lives(); }));
  return made;
}

Status OpenPartner::lives() {
  if (child_) return child_->lives();
  return serves_ ? Status() : error(Code::peer_lost, "the target has ended");
}

OpenPartner::~OpenPartner() {
  if (meeting_) meeting_->end(kTarget, [this] { return lives(); });
}

}  // namespace towpath::tools::bench
