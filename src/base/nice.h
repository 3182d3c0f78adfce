/*
 * nice: work that must not take processors from the engine.
 *
 * Linux has a priority for each thread, and one without rights can lower it but never raise it again. So a thread that
 * answers clients keeps its own, and hands what takes long to another.
 */
#ifndef BASE_NICE_H
#define BASE_NICE_H

/* Lowers the calling thread's priority for good: next to a thread of the engine it gets a tenth of a processor. */
void nice_thread(void);

/* Runs fn(ctx) on a thread of low priority and waits for it. Where there can be no thread, on this one. */
void nice_run(void (*fn)(void *ctx), void *ctx);

#endif
