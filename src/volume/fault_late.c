/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a fault medium late: see volume/fault_late.h. The timer belongs to the reactor of the
 * control thread, which is the thread that opens media. A cancelled opening ends in the next turn,
 * as one of a medium on another machine would.
 */
#include "volume/fault_late.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fault_late {
	struct media_opening *opening;
	struct media *media;
	struct reactor_timer timer;
	int error;
	bool is_cancelled;
};

static void late_end(struct fault_late *late, int res, const char *why)
{
	struct media_opening *opening = late->opening;
	struct media *media = late->media;
	struct media_error error;

	free(late);
	opening->own = NULL;
	if (res < 0) {
		media->ops->close(media);
		media = NULL;
		media_fail(&error, res, "fault: late: %s", why);
	}
	media_opening_end(opening, media, res, &error);
}

static void late_due(struct reactor_timer *timer)
{
	struct fault_late *late = container_of(timer, struct fault_late, timer);

	if (late->is_cancelled)
		late_end(late, -ECANCELED, "the opening was cancelled");
	else
		late_end(late, late->error, strerror(-late->error));
}

int fault_late_open(struct media_opening *opening, struct media *taken_media, uint64_t delay_ms,
		    int error, struct media_error *ret_error)
{
	struct reactor *reactor = reactor_current();
	struct fault_late *late = reactor ? calloc(1, sizeof(*late)) : NULL;

	if (!late) {
		taken_media->ops->close(taken_media);
		return reactor ? media_fail(ret_error, -ENOMEM, "out of memory")
			       : media_fail(ret_error, -EAGAIN,
					    "fault: late needs a reactor to wait on");
	}
	late->opening = opening;
	late->media = taken_media;
	late->error = error;
	opening->own = late;
	reactor_timer_init(reactor, &late->timer, late_due);
	reactor_timer_arm(&late->timer, reactor_now_ns(reactor) + delay_ms * NS_PER_MS);
	return -EINPROGRESS;
}

void fault_late_cancel(struct media_opening *opening)
{
	struct fault_late *late = opening->own;

	late->is_cancelled = true;
	reactor_timer_arm(&late->timer, reactor_now_ns(reactor_current()));
}
