#include <algorithm>

#include <unistd.h>

#include <towpath/sys/direct_storage_parts.h>
#include <towpath/sys/dynamic_library.h>
#include <towpath/sys/judged.h>

namespace towpath::sys::internal {
namespace {

Finding probe_library(const std::vector<std::string>& names) {
  Finding question{.question = "Is there a libcufile?", .signal = "dlopen(3)"};
  std::string refused;
  for (const std::string& name : names) {
    const auto library = DynamicLibrary::open(name);
    if (library.ok()) {
      question.source = library->path();
      return judge(std::move(question), {.verdict = Verdict::yes, .reason = library->path()});
    }
    if (refused.empty()) refused = library.status().message();
  }
  question.source = names.empty() ? "" : names.front();
  return judge(std::move(question),
               {.verdict = Verdict::no,
                .reason = std::move(refused),
                .hint = "install libcufile of the CUDA toolkit; without, bytes for a GPU are "
                        "staged through pinned memory"});
}

/// What file systems over RDMA need besides; it is loaded like the library itself.
Finding probe_rdma_library(const std::vector<std::string>& names) {
  Finding question{.question = "Can libcufile go to storage over RDMA?",
                   .signal = "dlopen(3) of its side library",
                   .source = names.empty() ? "" : names.front()};
  for (const std::string& name : names) {
    const auto library = DynamicLibrary::open(name);
    if (library.ok())
      return judge(std::move(question), {.verdict = Verdict::yes, .reason = library->path()});
  }
  return judge(std::move(question),
               {.verdict = Verdict::degraded,
                .reason = "it is not here; local drives need none",
                .hint = "install libcufile_rdma of the CUDA toolkit, for NFS, Lustre or WEKA"});
}

/// cufile.json is JSON with comments to the end of a line.
std::string without_comments(std::string_view text) {
  std::string bare;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!quoted && text.substr(i).starts_with("//")) {
      i = std::min(text.find('\n', i), text.size());
      bare.push_back('\n');
      continue;
    }
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    bare.push_back(text[i]);
  }
  return bare;
}

/// A switch of the configuration; its names occur once each, whatever group they stand in.
std::optional<bool> configured(std::string_view bare, std::string_view name) {
  const std::size_t at = bare.find(cat('"', name, '"'));
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = trimmed(bare.substr(at + name.size() + 2));
  if (!rest.starts_with(':')) return std::nullopt;
  rest = trimmed(rest.substr(1));
  if (rest.starts_with("true")) return true;
  if (rest.starts_with("false")) return false;
  return std::nullopt;
}

/// "; max_direct_io_size_kb 4096": of the sizes that bound an I/O, those that the file sets.
std::string configured_sizes(std::string_view bare) {
  std::string sizes;
  for (const std::string_view name :
       {"max_direct_io_size_kb", "per_buffer_cache_size_kb", "max_device_pinned_mem_size_kb",
        "posix_pool_slab_size_kb", "posix_pool_slab_count"}) {
    const std::size_t at = bare.find(cat('"', name, '"'));
    if (at == std::string_view::npos) continue;
    const std::string_view rest = trimmed(bare.substr(at + name.size() + 2));
    if (!rest.starts_with(':')) continue;
    const std::string_view value = trimmed(rest.substr(1));
    const std::size_t end = value.starts_with('[') ? value.find(']') : value.find_first_of(",}\n");
    const std::string_view whole = trimmed(value.substr(0, end));
    sizes += cat("; ", name, " ", printable(whole, 64), value.starts_with('[') ? "]" : "");
  }
  return sizes;
}

// Defaults: cuFile configuration guide.
struct Configuration {
  bool p2pdma = false;
  bool allow_compat = true;
  bool force_compat = false;
  std::string sizes;
};

Configuration read_configuration(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text.ok()) return {};
  const std::string bare = without_comments(*text);
  const Configuration otherwise;
  // The second is the name of the third since cuFile 1.19. With either, all is POSIX I/O.
  bool forced = otherwise.force_compat;
  for (const char* name : {"force_compat_mode", "vanilla_posix_io_mode", "posix_io_mode"})
    forced = forced || configured(bare, name).value_or(false);
  return {.p2pdma = configured(bare, "use_pci_p2pdma").value_or(otherwise.p2pdma),
          .allow_compat = configured(bare, "allow_compat_mode").value_or(otherwise.allow_compat),
          .force_compat = forced,
          .sizes = configured_sizes(bare)};
}

Finding probe_configuration(const std::string& path, const Configuration& configuration) {
  Finding question{.question = "Does libcufile's configuration allow the direct ways?",
                   .signal = "use_pci_p2pdma, allow_compat_mode, force_compat_mode, and sizes",
                   .source = path};
  const bool is_there = ::access(path.c_str(), R_OK) == 0;
  std::string seen = is_there ? "" : "not there: its defaults hold; ";
  seen += cat("p2pdma ", configuration.p2pdma ? "on" : "off", ", compat ",
              configuration.force_compat   ? "forced"
              : configuration.allow_compat ? "allowed, and taken without a word"
                                           : "forbidden",
              configuration.sizes);
  if (configuration.force_compat)
    return judge(std::move(question), {.verdict = Verdict::no,
                                       .reason = std::move(seen),
                                       .hint = "set force_compat_mode and vanilla_posix_io_mode "
                                               "to false"});
  const bool best = configuration.p2pdma && !configuration.allow_compat;
  return judge(std::move(question),
               {.verdict = best ? Verdict::yes : Verdict::degraded,
                .reason = std::move(seen),
                .hint = best ? ""
                             : "use_pci_p2pdma true for the way without nvidia-fs, "
                               "allow_compat_mode false so that staging is an error"});
}

}  // namespace

LibraryAnswers ask_library(const DirectStorageOptions& options) {
  const Configuration configuration = read_configuration(options.configuration);
  LibraryAnswers answers{.findings = {probe_library(options.libraries)}};
  answers.is_there = answers.findings.front().verdict == Verdict::yes;
  if (answers.is_there) {
    answers.findings.push_back(probe_configuration(options.configuration, configuration));
    answers.findings.push_back(probe_rdma_library(options.rdma_libraries));
  }
  answers.allows_direct = !configuration.force_compat;
  answers.allows_p2pdma = answers.allows_direct && configuration.p2pdma;
  return answers;
}

}  // namespace towpath::sys::internal
