/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that waits for signals and posts them to the control reactor. SIGTERM and SIGINT ask for
 * an orderly end, SIGHUP for a reload, SIGUSR1 for figures in the log. The second SIGTERM or SIGINT
 * ends the process at once, from this thread, so that it works even when the control thread is
 * stuck in a slow medium.
 */
#include "daemon/signals.h"

#include "base/log.h"
#include "base/log_writer.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* Used only inside this process: wakes the thread so that it ends. */
#define SIGNAL_QUIT_THREAD SIGUSR2

static void signals_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR1);
	sigaddset(set, SIGNAL_QUIT_THREAD);
}

void signals_block(void)
{
	sigset_t set;

	signals_set(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void stop_arrived(struct reactor_msg *msg)
{
	struct signals *signals = container_of(msg, struct signals, stop_msg);

	signals->on_stop(signals->arg);
}

static void reload_arrived(struct reactor_msg *msg)
{
	struct signals *signals = container_of(msg, struct signals, reload_msg);

	/* Cleared first: a signal that arrives from here on asks for another reload. */
	atomic_store(&signals->reload_posted, false);
	signals->on_reload(signals->arg);
}

static void report_arrived(struct reactor_msg *msg)
{
	struct signals *signals = container_of(msg, struct signals, report_msg);

	atomic_store(&signals->report_posted, false);
	signals->on_report(signals->arg);
}

static void signal_deliver(struct signals *signals, int signo)
{
	if (signo == SIGHUP) {
		if (!atomic_exchange(&signals->reload_posted, true))
			reactor_post(signals->control, &signals->reload_msg, reload_arrived);
		return;
	}
	if (signo == SIGUSR1) {
		if (!atomic_exchange(&signals->report_posted, true))
			reactor_post(signals->control, &signals->report_msg, report_arrived);
		return;
	}
	if (signals->stop_count++ > 0) {
		log_warn("control", "second stop signal: ending without cleanup");
		log_writer_flush();
		_exit(128 + signo);
	}
	reactor_post(signals->control, &signals->stop_msg, stop_arrived);
}

static void *signals_main(void *arg)
{
	struct signals *signals = arg;
	sigset_t set;
	int signo;

	signals_set(&set);
	for (;;) {
		if (sigwait(&set, &signo))
			continue;
		if (signo == SIGNAL_QUIT_THREAD) {
			if (atomic_load(&signals->quits))
				return NULL;
			continue; /* from outside: without this thread SIGTERM would have no effect
				   */
		}
		signal_deliver(signals, signo);
	}
}

int signals_start(struct signals *signals)
{
	return -pthread_create(&signals->thread, NULL, signals_main, signals);
}

void signals_stop(struct signals *signals)
{
	atomic_store(&signals->quits, true);
	pthread_kill(signals->thread, SIGNAL_QUIT_THREAD);
	pthread_join(signals->thread, NULL);
}
