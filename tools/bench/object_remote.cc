#include <towpath/backends/object/options.h>
#include <towpath/backends/object/store.h>
#include <towpath/core/format.h>
#include <towpath/memory/object_region.h>
#include <towpath/standard/object_settings.h>
#include <towpath/standard/settings.h>

#include "tools/bench/remote.h"

namespace towpath::tools::bench {
namespace {

using backends::object::BackendOptions;
using backends::object::ObjectName;
using backends::object::Store;

/// Block i is the object SCOPE/i. It is filled and verified by requests of its own, which the
/// agent under measurement has no part in.
class ObjectRemote final : public Remote {
 public:
  explicit ObjectRemote(std::string agent) : name_(std::move(agent)) {}
  ~ObjectRemote() override {
    if (store_ != nullptr) remove(put_);
  }

  Status open(agent::Agent& agent, const Options& options, std::uint64_t blocks,
              const Clock& clock) {
    TOWPATH_TRY(const backend::Params params,
                standard::object_params(standard::read_environment()));
    TOWPATH_TRY(const BackendOptions where, BackendOptions::parse(params));
    TOWPATH_TRY(store_, Store::open(where, clock));
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const std::string key = cat("towpath-", options.scope, "/", i);
      TOWPATH_TRY(auto region, memory::ObjectRegion::create({.key = key}));
      objects_.push_back({.name = {where.bucket, key}});
      TOWPATH_TRY(objects_.back().registration, agent.register_region(std::move(region)));
    }
    return {};
  }

  const std::string& peer() const override { return name_; }
  MemoryKind kind() const override { return MemoryKind::object; }
  Status add(DescriptorList& list, const StridedDescriptor& blocks) const override {
    for (std::uint64_t i = 0; i < blocks.count; ++i) {
      const std::uint64_t index = blocks.address / blocks.stride + i;
      TOWPATH_TRY(list.add(
          Descriptor{0, blocks.length, objects_[index].registration.descriptor().device_id}));
    }
    return {};
  }
  std::string what() const override {
    return cat("an object for each block, in bucket ", printable(objects_.front().name.bucket));
  }

  Result<Duration> prepare(const Blocks& blocks, Before before) override {
    remove(put_);
    put_ = blocks.count;
    if (before == Before::poison) return Duration(0);  // what is not there is not right
    Bytes all(blocks.area_bytes());
    fill(all, blocks.seed);
    for (std::uint64_t i = 0; i < blocks.count; ++i)
      TOWPATH_TRY(store_->put(objects_[i].name,
                              ConstByteSpan(all).subspan(i * blocks.stride, blocks.block_bytes)));
    return Duration(0);
  }

  Result<Looked> look(const Blocks& blocks) override {
    if (blocks.count == 0) return Looked{};
    Bytes all(blocks.area_bytes());
    poison(all);
    for (std::uint64_t i = 0; i < blocks.count; ++i) {
      TOWPATH_TRY(const Bytes object, store_->get(objects_[i].name));
      if (object.size() != blocks.block_bytes) return Looked{.wrong = i * blocks.stride};
      std::ranges::copy(object, all.begin() + static_cast<std::ptrdiff_t>(i * blocks.stride));
    }
    return Looked{.wrong = first_wrong(all, blocks)};
  }

 private:
  struct Object {
    ObjectName name;
    memory::Registration registration;
  };

  // Those that a row left out are not there.
  void remove(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) (void)store_->remove(objects_[i].name);
  }

  const std::string name_;
  std::unique_ptr<Store> store_;
  std::vector<Object> objects_;
  std::uint64_t put_ = 0;  // objects that may be there
};

}  // namespace

Result<std::unique_ptr<Remote>> open_object_remote(agent::Agent& agent, const Options& options,
                                                   std::uint64_t blocks, const Clock& clock) {
  auto remote = std::make_unique<ObjectRemote>(agent.name());
  TOWPATH_TRY(remote->open(agent, options, blocks, clock));
  return std::unique_ptr<Remote>(std::move(remote));
}

}  // namespace towpath::tools::bench
