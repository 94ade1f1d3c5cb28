#include <towpath/run/file_engines.h>
#include <towpath/run/thread_file_engine.h>
#include <towpath/sys/uring_file_engine.h>

namespace towpath::run {

Result<OpenedFileEngine> open_file_engine(FileEngineKind kind, std::uint32_t depth) {
  OpenedFileEngine opened;
  if (kind != FileEngineKind::threads) {
    auto ring = sys::UringFileEngine::open(depth);
    if (ring.ok()) {
      opened.engine = std::move(*ring);
      return opened;
    }
    if (kind == FileEngineKind::io_uring) return ring.status();
    opened.refusal = ring.status().to_string();
  }
  TOWPATH_TRY(opened.engine, ThreadFileEngine::open(depth));
  return opened;
}

Result<std::unique_ptr<sys::FileDevice>> open_file_device(FileEngineKind kind,
                                                          std::uint32_t depth) {
  TOWPATH_TRY(OpenedFileEngine opened, open_file_engine(kind, depth));
  return std::make_unique<sys::EngineFileDevice>(std::move(opened.engine), depth);
}

}  // namespace towpath::run
