/*
 * log: one line a call to stderr, or to nowhere. Levels are set once at start (by cli) and read without locks.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_SILENT, LOG_ERROR, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
enum log_level log_level(void);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
