/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An I/O engine for fio (ioengine=external:.../libweft-fio.so) over libweft. Every job has its own
 * instance with its own controllers, created after fio has forked, because threads do not survive a
 * fork. The size, which fio needs before, is read through a temporary instance that is destroyed
 * before the fork.
 *
 * Threads: fio calls all functions on the job's own thread; completions run there too, in weft_poll
 * called by getevents. Built against the headers of the fio that loads it (ioops version).
 */
#include <fio.h>
#include <optgroup.h>

#include "weft/weft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATHS_MAX      32
#define TEXT_BYTES     2048
#define ENGINE_NAME    "weft"
#define NS_PER_MS      1000000
#define HEDGE_DECIMALS 100 /* percentiles are in hundredths of a percent */

/* fio stores the job's options here. The first member must not be an option, because offset 0 means
 * none. */
struct engine_options {
	struct thread_data *td;
	char *nqn;
	char *paths;
	char *discovery;
	unsigned int nsid;
	char *profile;
	char *policy;
	char *hedge;
	unsigned int hedge_extra;
	char *timeouts;
	char *hostnqn;
	unsigned int reactors;
	unsigned int spin_us;
	unsigned int data_digest;
	/* Not an option: the namespace found by setup, so that init can check it. */
	bool has_found;
	uint8_t found_uuid[16];
	uint8_t found_nguid[16];
};

#define ENGINE_OPTION(option_name, long_name, option_type, member, text)                           \
	.name = option_name, .lname = long_name, .type = option_type,                              \
	.off1 = offsetof(struct engine_options, member), .help = text,                             \
	.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID

static struct fio_option engine_options[] = {
	{ENGINE_OPTION("nqn", "subsystem", FIO_OPT_STR_STORE, nqn, "NQN of the subsystem")},
	{ENGINE_OPTION("paths", "paths", FIO_OPT_STR_STORE, paths,
		       "Addresses of the target: ADDR:PORT,ADDR:PORT,...")},
	{ENGINE_OPTION("discovery", "discovery service", FIO_OPT_STR_STORE, discovery,
		       "ADDR:PORT to ask for the paths")},
	{ENGINE_OPTION("nsid", "namespace", FIO_OPT_INT, nsid, "Namespace identifier"), .def = "1"},
	{ENGINE_OPTION("timeout_profile", "time-outs", FIO_OPT_STR_STORE, profile,
		       "default, training or database")},
	{ENGINE_OPTION("timeouts", "single time-outs", FIO_OPT_STR_STORE, timeouts,
		       "name=value,... over the profile; see weft-explain-timeouts(1)")},
	{ENGINE_OPTION("policy", "path policy", FIO_OPT_STR_STORE, policy,
		       "numa, round-robin, queue-depth or latency")},
	{ENGINE_OPTION("hedge", "hedged reads", FIO_OPT_STR_STORE, hedge,
		       "Percentile, such as 99 or 99.9, after which a read is sent again")},
	{ENGINE_OPTION("hedge_extra", "most hedged reads", FIO_OPT_INT, hedge_extra,
		       "Most extra reads, in percent"),
	 .def = "5"},
	{ENGINE_OPTION("hostnqn", "host", FIO_OPT_STR_STORE, hostnqn, "NQN of this host")},
	{ENGINE_OPTION("reactors", "reactors", FIO_OPT_INT, reactors, "Threads of libweft per job"),
	 .def = "1"},
	{ENGINE_OPTION("spin_us", "busy wait", FIO_OPT_INT, spin_us,
		       "Longest busy wait for an answer in microseconds"),
	 .def = "0"},
	{ENGINE_OPTION("data_digest", "digests", FIO_OPT_BOOL, data_digest,
		       "Ask for header and data digests"),
	 .def = "0"},
	{.name = NULL},
};

/* State of a job. */
struct engine {
	struct weft *weft;
	struct weft_subsystem *subsystem;
	struct weft_ns *ns;
	struct weft_ns_info info;
	unsigned next_reactor;
	unsigned event_count;
	struct io_u **events; /* found by the last getevents; room for iodepth entries */
};

/* The request of an io_u. */
struct engine_io {
	struct weft_request request;
	struct iovec iov;
	struct engine *engine;
	struct io_u *io_u;
};

/* ---- opening ---------------------------------------------------------------------------------
 */

static void on_log(void *arg, int level, const char *line)
{
	if (level <= 1)
		log_err("%s: %s\n", ENGINE_NAME, line);
}

/* Splits "ADDR", "ADDR:PORT" or "[ADDR]:PORT" in place. */
static void path_split(char *text, struct weft_path *ret_path)
{
	char *colon = strrchr(text, ':');

	*ret_path = (struct weft_path){.address = text};
	if (text[0] == '[' && strchr(text, ']') != NULL) {
		char *end = strchr(text, ']');

		ret_path->address = text + 1;
		*end = '\0';
		colon = end[1] == ':' ? end + 1 : NULL;
	} else if (colon != NULL && strchr(text, ':') != colon) {
		colon = NULL; /* IPv6 without brackets */
	}
	if (colon != NULL) {
		*colon = '\0';
		ret_path->service = colon + 1;
	}
}

/* Splits `text` in place. Returns the number of paths, or -1 after a message. */
static int paths_split(char *text, struct weft_path paths[PATHS_MAX])
{
	int count = 0;
	char *rest = NULL;

	for (char *word = strtok_r(text, ", ", &rest); word != NULL;
	     word = strtok_r(NULL, ", ", &rest)) {
		if (count == PATHS_MAX) {
			log_err("%s: more than %d paths\n", ENGINE_NAME, PATHS_MAX);
			return -1;
		}
		path_split(word, &paths[count++]);
	}
	return count;
}

/* Returns hundredths of a percent, 0 for none, or -1 after a message. */
static int hedge_parse(const char *text)
{
	char *end;
	double percent;

	if (text == NULL)
		return 0;
	percent = strtod(text, &end);
	if (*end == '\0' && end != text && percent >= 0 && percent < 100)
		return (int)(percent * HEDGE_DECIMALS + 0.5);
	log_err("%s: hedge wants a percentile such as 99 or 99.9, not \"%s\"\n", ENGINE_NAME, text);
	return -1;
}

static int engine_open_subsystem(struct engine *engine, const struct engine_options *options)
{
	char text[TEXT_BYTES], discovery_text[TEXT_BYTES];
	struct weft_path paths[PATHS_MAX];
	struct weft_path discovery;
	struct weft_open_options open;
	struct weft_error error;
	int path_count, hedge = hedge_parse(options->hedge);
	int res;

	snprintf(text, sizeof(text), "%s", options->paths != NULL ? options->paths : "");
	path_count = paths_split(text, paths);
	if (path_count < 0 || hedge < 0)
		return -EINVAL;
	weft_open_options_init(&open);
	open.subsystem_nqn = options->nqn;
	open.paths = paths;
	open.path_count = (unsigned)path_count;
	if (options->discovery != NULL) {
		snprintf(discovery_text, sizeof(discovery_text), "%s", options->discovery);
		path_split(discovery_text, &discovery);
		open.discovery = &discovery;
	}
	open.profile = options->profile;
	open.timeouts = options->timeouts;
	open.policy = options->policy;
	open.hedge_percentile = (uint32_t)hedge;
	open.hedge_extra_percent = options->hedge_extra;
	open.header_digest = open.data_digest = options->data_digest != 0;
	open.queue_size = options->td->o.iodepth < 127 ? 128 : options->td->o.iodepth + 1;
	res = weft_open(engine->weft, &open, &engine->subsystem, &error);
	if (res == 0)
		res = weft_ns_open(engine->subsystem, options->nsid, &engine->ns, &error);
	if (res != 0)
		log_err("%s: %s\n", ENGINE_NAME, error.text);
	return res;
}

static void engine_close(struct engine *engine)
{
	if (engine->ns != NULL)
		weft_ns_close(engine->ns);
	if (engine->subsystem != NULL)
		weft_close(engine->subsystem);
	if (engine->weft != NULL)
		weft_destroy(engine->weft);
	free(engine->events);
	free(engine);
}

static int engine_open(struct thread_data *td, struct engine **ret_engine)
{
	struct engine_options *options = td->eo;
	struct engine *engine = calloc(1, sizeof(*engine));
	struct weft_options instance;
	struct weft_error error;
	int res = -ENOMEM;

	if (engine == NULL)
		return -ENOMEM;
	options->td = td;
	engine->events = calloc(td->o.iodepth, sizeof(struct io_u *));
	weft_options_init(&instance);
	instance.callbacks = WEFT_CALLBACKS_POLL;
	instance.reactors = options->reactors;
	instance.spin_us = options->spin_us;
	instance.host_nqn = options->hostnqn;
	instance.log = on_log;
	if (engine->events != NULL) {
		res = weft_create(&instance, &engine->weft, &error);
		if (res != 0)
			log_err("%s: %s\n", ENGINE_NAME, error.text);
	}
	if (res == 0)
		res = engine_open_subsystem(engine, options);
	if (res == 0) {
		engine->info.size = sizeof(engine->info);
		res = weft_ns_info(engine->ns, &engine->info);
	}
	if (res == 0)
		*ret_engine = engine;
	else
		engine_close(engine);
	return res;
}

/* ---- functions for fio -----------------------------------------------------------------------
 */

static bool blocks_fit(struct thread_data *td, uint32_t block_bytes)
{
	for (int ddir = 0; ddir < DDIR_RWDIR_CNT; ddir++) {
		if (td->o.min_bs[ddir] % block_bytes == 0)
			continue;
		log_err("%s: bs=%llu is not a multiple of the namespace's blocks of %u bytes\n",
			ENGINE_NAME, td->o.min_bs[ddir], block_bytes);
		return false;
	}
	return true;
}

/* Called once per job, in the process that forks the jobs. */
static int engine_setup(struct thread_data *td)
{
	struct engine_options *options = td->eo;
	struct engine *engine;
	int res;

	if (options->nqn == NULL && options->discovery == NULL) {
		log_err("%s: name the subsystem (nqn=...) and its paths (paths=ADDR:PORT)\n",
			ENGINE_NAME);
		return 1;
	}
	res = engine_open(td, &engine);
	if (res != 0) {
		td_verror(td, -res, "weft_open");
		return 1;
	}
	if (!blocks_fit(td, engine->info.block_bytes)) {
		td_verror(td, EINVAL, "bs");
		engine_close(engine);
		return 1;
	}
	if (td->files_index == 0) {
		td->o.nr_files = td->o.nr_files > 0 ? td->o.nr_files : 1;
		add_file(td, ENGINE_NAME, 0, 0);
		td->o.open_files++;
	}
	td->files[0]->real_file_size = engine->info.block_count * engine->info.block_bytes;
	options->has_found = true;
	memcpy(options->found_uuid, engine->info.uuid, sizeof(options->found_uuid));
	memcpy(options->found_nguid, engine->info.nguid, sizeof(options->found_nguid));
	engine_close(engine);
	return 0;
}

/* Whether the NSID still means the namespace found by setup. */
static bool is_found_ns(const struct engine_options *options, const struct weft_ns_info *info)
{
	return !options->has_found ||
	       (memcmp(options->found_uuid, info->uuid, sizeof(info->uuid)) == 0 &&
		memcmp(options->found_nguid, info->nguid, sizeof(info->nguid)) == 0);
}

/* Called in the process or thread of the job. */
static int engine_init(struct thread_data *td)
{
	struct engine *engine;
	int res = engine_open(td, &engine);

	if (res == 0 && !is_found_ns(td->eo, &engine->info)) {
		log_err("%s: namespace %u was replaced since the job was set up\n", ENGINE_NAME,
			engine->info.nsid);
		engine_close(engine);
		res = -ESTALE;
	}
	if (res != 0) {
		td_verror(td, -res, "weft_open");
		return 1;
	}
	td->io_ops_data = engine;
	return 0;
}

static void engine_cleanup(struct thread_data *td)
{
	if (td->io_ops_data != NULL)
		engine_close(td->io_ops_data);
	td->io_ops_data = NULL;
}

static void on_done(struct weft_request *request)
{
	struct engine_io *io = request->arg;

	io->io_u->error = (unsigned)-request->result;
	io->io_u->resid = request->result != 0 ? io->io_u->xfer_buflen : 0;
	io->engine->events[io->engine->event_count++] = io->io_u;
}

static int engine_io_init(struct thread_data *td, struct io_u *io_u)
{
	struct engine_io *io = calloc(1, sizeof(*io));

	if (io == NULL)
		return 1;
	io->io_u = io_u;
	io->engine = td->io_ops_data;
	io->request.arg = io;
	io->request.done = on_done;
	io_u->engine_data = io;
	return 0;
}

static void engine_io_free(struct thread_data *td, struct io_u *io_u)
{
	free(io_u->engine_data);
	io_u->engine_data = NULL;
}

/* 0 or -errno. */
static int request_fill(const struct engine *engine, struct io_u *io_u)
{
	struct engine_io *io = io_u->engine_data;
	struct weft_request *request = &io->request;
	uint32_t block_bytes = engine->info.block_bytes;

	request->iov_count = 0;
	request->block = 0;
	request->block_count = 0;
	if (ddir_sync(io_u->ddir)) {
		request->op = WEFT_FLUSH;
		return 0;
	}
	if (io_u->offset % block_bytes != 0 || io_u->xfer_buflen % block_bytes != 0 ||
	    io_u->xfer_buflen / block_bytes > UINT32_MAX)
		return -EINVAL;
	request->block = io_u->offset / block_bytes;
	request->block_count = (uint32_t)(io_u->xfer_buflen / block_bytes);
	if (io_u->ddir == DDIR_TRIM) {
		request->op = WEFT_DEALLOCATE;
		return 0;
	}
	request->op = io_u->ddir == DDIR_READ ? WEFT_READ : WEFT_WRITE;
	io->iov = (struct iovec){.iov_base = io_u->xfer_buf, .iov_len = io_u->xfer_buflen};
	request->iov = &io->iov;
	request->iov_count = 1;
	return 0;
}

static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	struct engine *engine = td->io_ops_data;
	struct engine_io *io = io_u->engine_data;
	int res;

	fio_ro_check(td, io_u);
	res = request_fill(engine, io_u);
	if (res == 0) {
		io->request.reactor = engine->next_reactor++;
		res = weft_submit(engine->ns, &io->request);
	}
	if (res == 0)
		return FIO_Q_QUEUED;
	io_u->error = (unsigned)-res;
	td_verror(td, -res, "weft_submit");
	return FIO_Q_COMPLETED;
}

static int engine_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			    const struct timespec *t)
{
	struct engine *engine = td->io_ops_data;
	int timeout_ms = min == 0 ? 0 : -1;

	if (min > 0 && t != NULL)
		timeout_ms = (int)(t->tv_sec * 1000 + t->tv_nsec / NS_PER_MS);
	engine->event_count = 0;
	do {
		int res = weft_poll(engine->weft, max - engine->event_count, timeout_ms);

		if (res < 0 && res != -EINTR)
			return res;
		if (t != NULL && res <= 0)
			break;
	} while (engine->event_count < min);
	return (int)engine->event_count;
}

static struct io_u *engine_event(struct thread_data *td, int event)
{
	struct engine *engine = td->io_ops_data;

	return engine->events[event];
}

/* No file and no cache exist, so opening, closing and invalidating do nothing. */
static int engine_open_file(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

static int engine_close_file(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

static int engine_invalidate(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

/* fio looks up this symbol. */
extern struct ioengine_ops ioengine;
struct ioengine_ops ioengine = {
	.name = ENGINE_NAME,
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_DISKLESSIO | FIO_RAWIO | FIO_NOEXTEND | FIO_NODISKUTIL,
	.setup = engine_setup,
	.init = engine_init,
	.cleanup = engine_cleanup,
	.queue = engine_queue,
	.getevents = engine_getevents,
	.event = engine_event,
	.open_file = engine_open_file,
	.close_file = engine_close_file,
	.invalidate = engine_invalidate,
	.io_u_init = engine_io_init,
	.io_u_free = engine_io_free,
	.options = engine_options,
	.option_struct_size = sizeof(struct engine_options),
};
