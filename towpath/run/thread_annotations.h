// Words that clang's -Wthread-safety understands, and other compilers skip.
//
// They say which mutex guards what; the compiler then proves it. Use with run::Mutex: clang does
// not take libstdc++'s std::mutex for a capability.
// Thread: immutable.
#pragma once

#if defined(__clang__)
#define TOWPATH_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define TOWPATH_THREAD_ANNOTATION_(x)
#endif

/// A class that can be held, and one that holds another for a scope.
#define TOWPATH_CAPABILITY(name) TOWPATH_THREAD_ANNOTATION_(capability(name))
#define TOWPATH_SCOPED_CAPABILITY TOWPATH_THREAD_ANNOTATION_(scoped_lockable)

/// Of data: may be touched (pointed to) only while the mutex is held.
#define TOWPATH_GUARDED_BY(mutex) TOWPATH_THREAD_ANNOTATION_(guarded_by(mutex))
#define TOWPATH_PT_GUARDED_BY(mutex) TOWPATH_THREAD_ANNOTATION_(pt_guarded_by(mutex))

/// Of functions: the caller holds it; the caller must not hold it.
#define TOWPATH_REQUIRES(...) TOWPATH_THREAD_ANNOTATION_(requires_capability(__VA_ARGS__))
#define TOWPATH_EXCLUDES(...) TOWPATH_THREAD_ANNOTATION_(locks_excluded(__VA_ARGS__))

/// Of functions: takes it, takes it if the result says so, gives it back.
#define TOWPATH_ACQUIRE(...) TOWPATH_THREAD_ANNOTATION_(acquire_capability(__VA_ARGS__))
#define TOWPATH_TRY_ACQUIRE(...) TOWPATH_THREAD_ANNOTATION_(try_acquire_capability(__VA_ARGS__))
#define TOWPATH_RELEASE(...) TOWPATH_THREAD_ANNOTATION_(release_capability(__VA_ARGS__))

/// Of mutexes: the order in which two are taken.
#define TOWPATH_ACQUIRED_BEFORE(...) TOWPATH_THREAD_ANNOTATION_(acquired_before(__VA_ARGS__))
#define TOWPATH_ACQUIRED_AFTER(...) TOWPATH_THREAD_ANNOTATION_(acquired_after(__VA_ARGS__))

/// Of functions that the analysis cannot follow; say why beside each use.
#define TOWPATH_NO_THREAD_SAFETY_ANALYSIS TOWPATH_THREAD_ANNOTATION_(no_thread_safety_analysis)
