// Blocks of a KV cache to a file and back, between two arrangements of the same numbers: what an
// engine keeps layer by layer, and what suits a tier. Built and run by the tests.
#include <algorithm>
#include <cstdio>

#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/layout/builder.h>
#include <towpath/layout/plan.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/file.h>

using namespace towpath;
using layout::PhysicalLayoutBuilder;

Status finish(Result<blockcopy::TransferJob> made, const char* what) {
  TOWPATH_TRY(blockcopy::TransferJob job, std::move(made));
  if (job.wait() != Outcome::done) return job.status();
  std::printf("%s: %s; %s in %llu chunks\n", what, to_string(job.route()).c_str(),
              format_bytes(job.bytes_in_place()).c_str(),
              static_cast<unsigned long long>(job.chunks()));
  return {};
}

Status save_and_restore() {
  sys::SystemClock clock;
  sys::SystemFileSystem files;
  TOWPATH_TRY(auto node, standard::Node::open({.name = "engine", .backends = {"posix"}}));
  TOWPATH_TRY(auto manager,
              blockcopy::TransferManager::create({.agent = &node->agent(), .clock = &clock}));

  // 64 blocks of 16 tokens, 4 layers, 8 heads of 64. The engine has a region per layer; the file
  // has blocks whose heads are outermost, so that any share of the heads lies together.
  layout::LayoutConfig config{.num_blocks = 64,
                              .num_layers = 4,
                              .outer_dim = 2,
                              .page_size = 16,
                              .inner_dim = 512,
                              .num_heads = 8};
  TOWPATH_TRY(auto engine, PhysicalLayoutBuilder(manager->registrar())
                               .with_config(config)
                               .layer_separate(layout::BlockDimension::second)
                               .allocate_system()
                               .build());
  config.format = layout::BlockFormat::universal;
  TOWPATH_TRY(auto file, PhysicalLayoutBuilder(manager->registrar())
                             .with_config(config)
                             .fully_contiguous()
                             .allocate_disk(files)
                             .build());
  TOWPATH_TRY(const ByteSpan page, engine.bytes({.block = 3, .layer = 2, .outer = 1}));
  std::ranges::fill(page, std::byte{42});

  TOWPATH_TRY(const auto g1, manager->register_layout(engine, {.tier = "g1"}));
  TOWPATH_TRY(const auto g3, manager->register_layout(file, {.tier = "g3"}));
  TOWPATH_TRY(
      finish(manager->copy({.source = g1, .target = g3, .blocks = {{0, 32, 16}}}), "saved"));
  // Back to other blocks, a layer at a time, so that a forward pass could begin with the first.
  TOWPATH_TRY(finish(
      manager->copy({.source = g3, .target = g1, .blocks = {{32, 48, 16}}, .layer_by_layer = true}),
      "restored"));

  TOWPATH_TRY(const ByteSpan back, engine.bytes({.block = 51, .layer = 2, .outer = 1}));
  if (std::ranges::equal(page, back)) return {};
  return error(Code::corrupt, "the page is not what was saved", "please report this");
}

int main() {
  const Status status = save_and_restore();
  std::printf("%s\n", status.ok() ? "the same" : status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
