/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of media (media/media.h, driver.h, state.h, event.h), by media for tests: "late:N"
 * opens when the test decides, "pair:(SPEC)(SPEC)" has two children and writes to both. Both keep
 * state per reactor. "thin:SPEC" is a store with one child. One thread, simulated reactors.
 */
#include "../sim/sim.h"
#include "base/clock.h"
#include "media/driver.h"
#include "media/event.h"
#include "media/state.h"
#include "tap.h"
#include "temp_folder.h"
#include "thin_medium.h"
#include "volume/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#define BLOCK 4096u

static struct sim *sim;
static struct reactor *control, *datas[2];

/* ---- the kinds ------------------------------------------------------------------------------ */

static unsigned open_count;         /* open media of these kinds */
static unsigned attached, detached; /* calls */
static bool attach_fails;
static void *slow_state; /* a state whose detach has not ended yet */
static bool detach_is_slow;

struct test_state {
	struct reactor *reactor;
	unsigned ios;
};

/* An I/O of a pair to one of its children. */
struct pair_part {
	struct media_io io;
	struct media_io *whole;
};

/* The context of an I/O of a pair. */
struct pair_work {
	struct pair_part *parts;
	unsigned missing;
	int result;
};
MEDIA_IO_FITS(struct pair_work);

static int test_attach(struct media *media, struct reactor *reactor, void *own)
{
	struct test_state *state = own;

	CHECK(reactor_current() == reactor);
	if (attach_fails)
		return -ENOTCONN;
	CHECK(state->reactor == NULL && state->ios == 0);
	state->reactor = reactor;
	attached++;
	return 0;
}

static void test_detach(struct media *media, struct reactor *reactor, void *own)
{
	CHECK(reactor_current() == reactor && ((struct test_state *)own)->reactor == reactor);
	detached++;
	if (detach_is_slow)
		slow_state = own;
	else
		media_detached(own);
}

static void part_done(struct media_io *part, int res)
{
	struct media_io *whole = container_of(part, struct pair_part, io)->whole;
	struct pair_work *work = (struct pair_work *)(void *)whole->context;

	if (res < 0)
		work->result = res;
	if (--work->missing > 0)
		return;
	free(work->parts);
	whole->done(whole, work->result);
}

static void late_submit(struct media_io *io)
{
	struct test_state *state = media_state(io->media, io->reactor);

	if (!state) {
		io->done(io, -EIO);
		return;
	}
	CHECK(state->reactor == io->reactor);
	state->ios++;
	io->done(io, 0);
}

static void pair_submit(struct media_io *io)
{
	struct pair_work *work = (struct pair_work *)(void *)io->context;
	struct pair_part *parts;

	if (!media_state(io->media, io->reactor)) {
		io->done(io, -EIO);
		return;
	}
	parts = calloc(2, sizeof(*parts));
	CHECK(parts != NULL);
	*work = (struct pair_work){.parts = parts, .missing = 2};
	for (unsigned i = 0; i < 2; i++) {
		parts[i].whole = io;
		parts[i].io = (struct media_io){
			.reactor = io->reactor,
			.media = io->media->children[i],
			.kind = io->kind,
			.offset = io->offset,
			.len_bytes = io->len_bytes,
			.iov = io->iov,
			.iov_count = io->iov_count,
			.done = part_done,
		};
	}
	for (unsigned i = 0; i < 2; i++)
		media_submit(&parts[i].io);
}

static void test_close(struct media *media)
{
	open_count--;
	free(media);
}

static const struct media_ops late_ops = {
	.name = "late",
	.submit = late_submit,
	.close = test_close,
	.state_bytes = sizeof(struct test_state),
	.attach = test_attach,
	.detach = test_detach,
};

static const struct media_ops pair_ops = {
	.name = "pair",
	.submit = pair_submit,
	.close = test_close,
	.state_bytes = sizeof(struct test_state),
	.attach = test_attach,
	.detach = test_detach,
};

static struct media *test_media(const struct media_ops *ops, uint64_t size_bytes)
{
	struct media *media = calloc(1, sizeof(*media));

	CHECK(media != NULL);
	media->ops = ops;
	media->size_bytes = size_bytes;
	media->block_bytes = BLOCK;
	media->buffer_align_bytes = 1;
	open_count++;
	return media;
}

#define OPENINGS_MAX 4
static struct media_opening *openings[OPENINGS_MAX]; /* of late media, in order of opening */
static unsigned opening_count;

static int late_open(struct media_opening *opening, struct media **ret_media,
		     struct media_error *ret_error)
{
	CHECK(opening_count < OPENINGS_MAX && opening->child_count == 0);
	openings[opening_count++] = opening;
	return -EINPROGRESS;
}

static void opening_forget(const struct media_opening *opening)
{
	for (unsigned i = 0; i < opening_count; i++) {
		if (openings[i] == opening) {
			openings[i] = openings[--opening_count];
			return;
		}
	}
	CHECK(!"not under way");
}

static void late_end(struct media_opening *opening, int res)
{
	struct media_error error = {"late: no answer"};
	uint64_t size_bytes = opening->spec->size_bytes;

	opening_forget(opening);
	media_opening_end(opening, res == 0 ? test_media(&late_ops, size_bytes) : NULL, res,
			  &error);
}

static void late_cancel(struct media_opening *opening)
{
	late_end(opening, -ECANCELED);
}

/* Returns the parenthesis that closes the first one. */
static char *part_end(char *body)
{
	unsigned depth = 0;

	CHECK(*body == '(');
	for (;; body++) {
		CHECK(*body != '\0');
		depth += *body == '(';
		depth -= *body == ')';
		if (depth == 0)
			return body;
	}
}

static int pair_parse(struct media_spec *spec, char *body, unsigned depth,
		      struct media_error *ret_error)
{
	int res = media_spec_add_children(spec, 2, ret_error);

	for (unsigned i = 0; i < 2 && res == 0; i++) {
		char *end = part_end(body);

		*end = '\0';
		res = media_spec_parse_child(spec, i, body + 1, depth, ret_error);
		body = end + 1;
	}
	return res;
}

static int pair_open(struct media_opening *opening, struct media **ret_media,
		     struct media_error *ret_error)
{
	CHECK(opening->child_count == 2);
	if (opening->children[0]->size_bytes != opening->children[1]->size_bytes)
		return media_fail(ret_error, -EINVAL, "pair: two sizes");
	*ret_media = test_media(&pair_ops, opening->children[0]->size_bytes);
	return 0;
}

static const struct media_driver late_driver = {
	.name = "late",
	.form = "late:SIZE",
	.kind = MEDIA_SPEC_VOLUME,
	.options = "block=",
	.open = late_open,
	.cancel = late_cancel,
};

static const struct media_driver pair_driver = {
	.name = "pair",
	.form = "pair:(SPEC)(SPEC)",
	.kind = MEDIA_SPEC_VOLUME,
	.options = "",
	.parse = pair_parse,
	.open = pair_open,
};

/* Replaces the array of volume/drivers.c. */
const struct media_driver *const media_drivers[] = {
	&media_file_driver, &media_mem_driver, &media_null_driver, &fault_driver,
	&late_driver,       &pair_driver,      &thin_driver,       NULL,
};

/* ---- shared by the tests -------------------------------------------------------------------- */

static unsigned done_calls;
static int done_res;

static void opened(struct media_open_request *request, int res)
{
	done_calls++;
	done_res = res;
}

static struct media_open_request request;

static void begin(const char *spec)
{
	static const struct media_terms terms;

	done_calls = 0;
	done_res = 1;
	request = (struct media_open_request){.done = opened};
	media_open_begin(&request, spec, &terms);
}

static void run_on(struct reactor *reactor, void (*fn)(struct reactor_msg *msg))
{
	static struct reactor_msg msg;

	reactor_post(reactor, &msg, fn);
	sim_run_until(sim, sim_now(sim) + NS_PER_MS);
}

static struct media *media;
static int io_res;
static struct media_io io;
static uint8_t bytes[BLOCK];

static void io_done(struct media_io *ended, int res)
{
	io_res = res;
}

static void io_here(struct reactor_msg *msg)
{
	static struct iovec iov = {bytes, BLOCK};

	io = (struct media_io){
		.reactor = reactor_current(),
		.media = media,
		.kind = io.kind,
		.len_bytes = BLOCK,
		.iov = &iov,
		.iov_count = 1,
		.done = io_done,
	};
	media_submit(&io);
}

static int io_on(struct reactor *reactor, enum media_kind kind)
{
	io.kind = kind;
	io_res = 1;
	run_on(reactor, io_here);
	return io_res;
}

static void close_here(struct reactor_msg *msg)
{
	media_close(media);
}

/* ---- opening -------------------------------------------------------------------------------- */

static void what_opens_at_once_ends_inside_begin(void)
{
	begin("fault:delay:ms=1@mem:1M");
	EXPECT_EQ(1, done_calls);
	EXPECT_EQ(0, done_res);
	EXPECT_EQ(1, request.media->child_count);
	EXPECT_STR("mem", media_store(request.media)->ops->name);
	EXPECT_STR("fault:delay:ms=1@mem:1M", request.media->spec);
	EXPECT_STR("mem:1M", request.media->children[0]->spec);
	media_close(request.media);
	begin("fault:delay:ms=1@mem:x");
	EXPECT_EQ(1, done_calls);
	EXPECT_EQ(-EINVAL, done_res);
	EXPECT(request.media == NULL);
}

static void a_late_medium_ends_later(void)
{
	begin("late:1M");
	EXPECT_EQ(0, done_calls);
	EXPECT_EQ(1, opening_count);
	late_end(openings[0], 0);
	EXPECT_EQ(1, done_calls);
	EXPECT_EQ(0, done_res);
	EXPECT_EQ(1 << 20, request.media->size_bytes);
	EXPECT_STR("late:1M", request.media->spec);
	media_close(request.media);
	EXPECT_EQ(0, open_count);

	begin("late:1M");
	late_end(openings[0], -ETIMEDOUT);
	EXPECT_EQ(1, done_calls);
	EXPECT_EQ(-ETIMEDOUT, done_res);
	EXPECT_STR("late: no answer", request.error.text);
}

static void children_open_at_the_same_time(void)
{
	begin("pair:(late:1M)(fault:delay:ms=1@late:1M)");
	EXPECT_EQ(2, opening_count);
	late_end(openings[1], 0);
	EXPECT_EQ(0, done_calls);
	late_end(openings[0], 0);
	EXPECT_EQ(1, done_calls);
	EXPECT_EQ(0, done_res);
	EXPECT_EQ(2, request.media->child_count);
	EXPECT_STR("late:1M", request.media->children[0]->spec);
	EXPECT_STR("fault", request.media->children[1]->ops->name);
	/* The store of a pair is the pair itself, not a child. */
	EXPECT(media_store(request.media) == request.media);
	EXPECT_EQ(3, open_count);
	media_close(request.media);
	EXPECT_EQ(0, open_count);
}

static void a_store_with_one_child_answers_for_itself(void)
{
	struct media *store;
	struct media_spec spec;

	begin("fault:delay:ms=1@thin:mem:1M");
	EXPECT_EQ(0, done_res);
	store = media_store(request.media);
	EXPECT(store == request.media->children[0]);
	EXPECT_STR("thin", store->ops->name);
	EXPECT_STR("mem", store->children[0]->ops->name);
	EXPECT_EQ(THIN_USED_BYTES, media_used_bytes(request.media));
	media_close(request.media);

	EXPECT_EQ(0, media_spec_parse("fault:delay:ms=1@thin:mem:1M", &spec, NULL));
	EXPECT_STR("thin:mem:1M", media_spec_store(&spec)->text);
	media_spec_free(&spec);
}

static void one_that_fails_ends_the_others(void)
{
	begin("pair:(late:1M)(late:1M)");
	late_end(openings[0], -ENOTCONN);
	EXPECT_EQ(0, opening_count);
	EXPECT_EQ(1, done_calls);
	EXPECT_EQ(-ENOTCONN, done_res);
	EXPECT_STR("late: no answer", request.error.text);

	/* A child that was already open is closed. */
	begin("pair:(late:1M)(late:1M)");
	late_end(openings[0], 0);
	EXPECT_EQ(1, open_count);
	late_end(openings[0], -ENOTCONN);
	EXPECT_EQ(-ENOTCONN, done_res);
	EXPECT_EQ(0, open_count);

	/* The pair refuses its children. */
	begin("pair:(late:1M)(mem:2M)");
	late_end(openings[0], 0);
	EXPECT_EQ(-EINVAL, done_res);
	EXPECT_STR("pair: two sizes", request.error.text);
	EXPECT_EQ(0, open_count);

	/* The second child fails at once, while the first is still opening. */
	begin("pair:(late:1M)(file:/nowhere/at/all,size=1M)");
	EXPECT_EQ(1, done_calls);
	EXPECT(done_res < 0);
	EXPECT_EQ(0, opening_count);
}

static void an_opening_can_be_cancelled(void)
{
	begin("pair:(pair:(late:1M)(late:1M))(late:1M)");
	EXPECT_EQ(3, opening_count);
	late_end(openings[0], 0);
	media_open_cancel(&request);
	EXPECT_EQ(1, done_calls);
	EXPECT_EQ(-ECANCELED, done_res);
	EXPECT_EQ(0, opening_count);
	EXPECT_EQ(0, open_count);
}

static void callers_that_cannot_wait_are_told(void)
{
	struct media_error error;
	struct media *none = NULL;

	EXPECT_EQ(-EAGAIN, media_open("late:1M", &none, &error));
	EXPECT(none == NULL);
	EXPECT(strstr(error.text, "late:1M opens asynchronously") != NULL);
	EXPECT_EQ(0, opening_count);
	EXPECT_EQ(0, open_count);
}

/* ---- inherited properties ------------------------------------------------------------------- */

static void a_wrapper_inherits_the_properties_of_its_child(void)
{
	struct media from, to = {.ops = &late_ops, .size_bytes = 9};

	memset(&from, 1, sizeof(from)); /* each bool is true, and no pointer is valid */
	media_inherit(&to, &from);
	EXPECT_EQ(from.size_bytes, to.size_bytes);
	EXPECT_EQ(from.block_bytes, to.block_bytes);
	EXPECT_EQ(from.buffer_align_bytes, to.buffer_align_bytes);
	EXPECT(to.has_volatile_cache && to.is_read_only && to.is_thin && to.can_discard);
	EXPECT(to.reads_zero_after_discard && to.knows_extents && to.works_in_submit);
	EXPECT_EQ(from.optimal_io_bytes, to.optimal_io_bytes);
	EXPECT_EQ(from.write_granularity_bytes, to.write_granularity_bytes);
	EXPECT_EQ(from.discard_granularity_bytes, to.discard_granularity_bytes);
	EXPECT_EQ(from.boundary_bytes, to.boundary_bytes);
	/* What belongs to one medium alone stays. */
	EXPECT(to.ops == &late_ops);
	EXPECT(!to.spec && !to.children && !to.states && !to.channel && !to.count && !to.guard &&
	       !to.range_guard);
	EXPECT_EQ(0, to.child_count);
	EXPECT(!to.is_wrapper);
}

/* ---- what is refused for media made of others ----------------------------------------------- */

static void expect_no_reopen(const char *spec, const char *new_spec, const char *text)
{
	struct media *reopened = NULL;
	struct media_error error = {""};

	begin(spec);
	EXPECT_EQ(0, done_res);
	EXPECT_EQ(-EBUSY, media_reopen(request.media, new_spec, &reopened, &error));
	EXPECT(reopened == NULL);
	EXPECT_STR(text, error.text);
	media_close(request.media);
}

/* Its children would stay as they are. */
static void a_medium_made_of_others_is_not_reopened(void)
{
	expect_no_reopen("pair:(mem:1M)(mem:1M)", "pair:(mem:2M)(mem:2M)",
			 "pair: a medium made of other media cannot change while it is served; "
			 "remove it, then add it again");
	expect_no_reopen("fault:delay:ms=1@thin:mem:1M", "fault:delay:ms=2@thin:mem:1M",
			 "thin: a medium made of other media cannot change while it is served; "
			 "remove it, then add it again");
	EXPECT_EQ(0, open_count);
}

static struct media_error known_error;

__attribute__((format(printf, 2, 3))) static int open_known(bool is_recreated, const char *format,
							    ...)
{
	static const struct media_record known = {.size_bytes = 1 << 20};
	const struct media_terms terms = {.known = &known, .is_recreated = is_recreated};
	struct media *opened = NULL;
	char spec[256];
	va_list args;
	int res;

	known_error.text[0] = '\0';
	va_start(args, format);
	vsnprintf(spec, sizeof(spec), format, args);
	va_end(args);
	res = media_open_on(spec, &terms, &opened, &known_error);
	media_close(opened);
	return res;
}

/* A file below a pair would be opened as a new file: created or grown. */
static void a_medium_made_of_known_files_is_not_opened(void)
{
	EXPECT_EQ(-EOPNOTSUPP, open_known(false, "thin:file:%s/a,size=1M", root));
	EXPECT(strstr(known_error.text, "/a,size=1M: was served before, and the files of a medium "
					"made of other media "
					"cannot be checked against what was served") != NULL);
	EXPECT_EQ(-EOPNOTSUPP, open_known(true, "thin:file:%s/a,size=1M", root));
	EXPECT_EQ(-EOPNOTSUPP,
		  open_known(false,
			     "fault:delay:ms=1@pair:(mem:1M)(fault:delay:ms=1@file:%s/a,size=1M)",
			     root));
	/* No file was created. A wrapper gives the terms to its file. */
	EXPECT_EQ(-ENOENT, open_known(false, "fault:delay:ms=1@file:%s/a,size=1M", root));
	/* Media without files have nothing to lose. */
	EXPECT_EQ(0, open_known(false, "pair:(mem:1M)(thin:mem:1M)"));
	EXPECT_EQ(0, open_count);
}

/* ---- state per reactor ---------------------------------------------------------------------- */

static void open_pair(void)
{
	begin("pair:(late:1M)(late:1M)");
	late_end(openings[0], 0);
	late_end(openings[0], 0);
	CHECK(done_res == 0);
	media = request.media;
	attached = detached = 0;
}

static void each_reactor_has_its_own_state(void)
{
	open_pair();
	EXPECT_EQ(0, attached);
	EXPECT_EQ(0, io_on(datas[0], MEDIA_WRITE));
	EXPECT_EQ(3, attached); /* the pair and both children */
	EXPECT_EQ(0, io_on(datas[0], MEDIA_READ));
	EXPECT_EQ(3, attached);
	EXPECT_EQ(0, io_on(datas[1], MEDIA_WRITE));
	EXPECT_EQ(6, attached);
	run_on(control, close_here);
	EXPECT_EQ(6, detached);
	EXPECT_EQ(0, open_count);
}

static void a_failed_attach_fails_the_io_and_is_tried_again(void)
{
	open_pair();
	attach_fails = true;
	EXPECT_EQ(-EIO, io_on(datas[0], MEDIA_WRITE));
	attach_fails = false;
	EXPECT_EQ(0, io_on(datas[0], MEDIA_WRITE));
	run_on(control, close_here);
	EXPECT_EQ(3, detached);
	EXPECT_EQ(0, open_count);
}

static void slow_detached(struct reactor_msg *msg)
{
	void *state = slow_state;

	slow_state = NULL;
	media_detached(state);
}

static void close_waits_for_a_detach_that_takes_its_time(void)
{
	begin("late:1M");
	late_end(openings[0], 0);
	media = request.media;
	attached = detached = 0;
	EXPECT_EQ(0, io_on(datas[1], MEDIA_WRITE));
	detach_is_slow = true;
	run_on(control, close_here);
	EXPECT_EQ(1, detached);
	EXPECT_EQ(1, open_count);
	detach_is_slow = false;
	run_on(datas[1], slow_detached);
	EXPECT_EQ(0, open_count);
}

/* ---- events --------------------------------------------------------------------------------- */

static unsigned told_calls, told_events;
static struct media *told_media;

static void on_told(struct media_listener *listener, struct media *of, unsigned events)
{
	CHECK(reactor_current() == control);
	told_calls++;
	told_events |= events;
	told_media = of;
}

static struct media_listener listener = {.told = on_told};

static void tell_here(struct reactor_msg *msg)
{
	media_tell(media_store(media), MEDIA_EVENT_SIZE);
	media_tell(media_store(media), MEDIA_EVENT_HEALTH);
}

static void tell_and_close_here(struct reactor_msg *msg)
{
	tell_here(msg);
	media_close(media);
}

static void a_medium_tells_its_listener(void)
{
	begin("fault:delay:ms=1@mem:1M");
	media = request.media;
	run_on(datas[0], tell_here); /* no listener */
	listener.reactor = control;
	EXPECT_EQ(0, media_listen(media, &listener));
	run_on(datas[0], tell_here);
	EXPECT_EQ(1, told_calls); /* one call for both */
	EXPECT_EQ(MEDIA_EVENT_SIZE | MEDIA_EVENT_HEALTH, told_events);
	EXPECT(told_media == media); /* the pair that has the listener, not its child */
	media_unlisten(media);
	run_on(datas[0], tell_here);
	EXPECT_EQ(1, told_calls);
	EXPECT_EQ(0, media_listen(media, &listener));
	run_on(datas[1], tell_here);
	EXPECT_EQ(2, told_calls);
	/* An event in flight when the medium closes is dropped. */
	run_on(control, tell_and_close_here);
	EXPECT_EQ(2, told_calls);
}

static struct reactor *reactor_make(unsigned index)
{
	const struct reactor_config config = {.index = index, .cpu = -1};
	struct reactor *reactor;

	CHECK(reactor_create(&config, &reactor) == 0);
	return reactor;
}

int main(void)
{
	CHECK(root_make());
	sim = sim_create(1, NULL);
	control = reactor_make(1000);
	datas[0] = reactor_make(0);
	datas[1] = reactor_make(1);
	TAP_RUN(what_opens_at_once_ends_inside_begin);
	TAP_RUN(a_late_medium_ends_later);
	TAP_RUN(children_open_at_the_same_time);
	TAP_RUN(a_store_with_one_child_answers_for_itself);
	TAP_RUN(one_that_fails_ends_the_others);
	TAP_RUN(an_opening_can_be_cancelled);
	TAP_RUN(callers_that_cannot_wait_are_told);
	TAP_RUN(a_wrapper_inherits_the_properties_of_its_child);
	TAP_RUN(a_medium_made_of_others_is_not_reopened);
	TAP_RUN(a_medium_made_of_known_files_is_not_opened);
	TAP_RUN(each_reactor_has_its_own_state);
	TAP_RUN(a_failed_attach_fails_the_io_and_is_tried_again);
	TAP_RUN(close_waits_for_a_detach_that_takes_its_time);
	TAP_RUN(a_medium_tells_its_listener);
	sim_destroy(sim);
	return root_end();
}
