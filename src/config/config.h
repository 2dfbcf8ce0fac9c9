/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The desired state of a target: one JSON document (docs/config-schema.json, weft.json(5)), or the
 * flags of `weft serve`, as a validated struct. Reading it opens nothing; snapshot_from_config
 * opens the media and makes what target_apply takes.
 *
 * Control thread only. Every problem found is collected, each with the place in the document and
 * the remedy, so that one run of --check tells all.
 */
#ifndef WEFT_CONFIG_CONFIG_H
#define WEFT_CONFIG_CONFIG_H

#include "base/net_addr.h"
#include "config/members.h"
#include "target/target.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_ERRORS_MAX       20
#define CONFIG_ERROR_TEXT_BYTES 512
#define CONFIG_NSID_MAX         TARGET_NSID_MAX
#define CONFIG_ANA_GROUP_MAX    (TARGET_ANA_GROUP_LOST - 1)
#define CONFIG_SUBSYSTEMS_MAX   1024
#define CONFIG_PORTS_MAX        (TARGET_PORTS_MAX - 1) /* one is left for discovery */
#define CONFIG_HOSTS_MAX        1024
#define CONFIG_DEFAULT_PORT     4420
#define CONFIG_DISCOVERY_PORT   8009
#define CONFIG_DEFAULT_NS_BYTES "1G"
#define CONFIG_DEFAULT_NS_FILE  "default.img"
#define CONFIG_DOCUMENT_VERSION 1
#define CONFIG_FILE_BYTES_MAX   (16 * 1024 * 1024)
#define CONFIG_DEFAULT_MODEL    "weft"
#define CONFIG_DEFAULT_ADDRESS  "127.0.0.1"
#define CONFIG_POOL_FOLDER_MAX  3900 /* bytes: a file name is added */

struct config_errors {
	unsigned count; /* found in all; the first CONFIG_ERRORS_MAX are kept */
	char texts[CONFIG_ERRORS_MAX][CONFIG_ERROR_TEXT_BYTES];
};

void config_errors_add(struct config_errors *errors, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* One line each, then how many were left out. */
void config_errors_print(const struct config_errors *errors, FILE *out);
/* The same in the log, each line behind `what`. */
void config_errors_log(const char *what, const struct config_errors *errors);

struct config_ns {
	uint32_t nsid;
	char *media;      /* spec, see media/media.h */
	struct uuid uuid; /* nil until config_identify; likewise the next one */
	uint8_t nguid[16];
	bool has_made_identity; /* by config_identify, not given by a document */
	bool is_read_only;
	uint32_t ana_group;
	/* Who sees it: without is_masked every host of the subsystem; else those listed.
	 * hidden_from takes away from either. */
	bool is_masked;
	char (*hosts)[NVME_NQN_BYTES];
	unsigned host_count;
	char (*hidden_from)[NVME_NQN_BYTES];
	unsigned hidden_count;
	enum ns_write_protect write_protect; /* see config_end_power_cycle */
	bool is_protect_given;               /* the document names a write protection */
	bool is_private;                     /* then masked, and to one host at most */
	char *label;                         /* NULL: none */
	bool is_clustered;                   /* other members of the cluster serve it too */
};

struct config_subsystem {
	char nqn[NVME_NQN_BYTES];
	char serial[NVME_SERIAL_BYTES + 1]; /* empty until config_identify */
	char model[NVME_MODEL_BYTES + 1];
	bool allows_any_host;
	char (*hosts)[NVME_NQN_BYTES];
	unsigned host_count;
	uint32_t rights_of_all;          /* of enum host_right, for every host that may connect */
	struct host_rights *host_rights; /* ascending NQN; what these hosts may do beyond that */
	unsigned host_rights_count;
	struct config_ns *namespaces; /* ascending NSID */
	unsigned ns_count;
	char *pool_folder; /* where hosts' own namespaces are made; NULL: they may not make any */
	uint64_t pool_bytes;
	bool is_implied; /* added by the program: not of the document */
};

struct config_port {
	uint16_t id;
	struct net_addr listen;
	char advertise[NET_ADDR_TEXT_BYTES];
	char (*subsystems)[NVME_NQN_BYTES]; /* offered here, unless offers_all */
	unsigned subsystem_count;
	bool offers_all;
	bool is_discovery_only;
	bool is_implied;             /* added by the program: not of the document */
	struct ana_group_state *ana; /* ascending group */
	unsigned ana_count;
	enum zero_copy zero_copy;
	uint32_t zero_copy_min_bytes;
};

/* Who else serves the clustered namespaces. The secret is not of the document: its file is read
 * when the target starts (config_cluster_read_secret). */
struct config_cluster {
	struct peers_config peers;
	char *secret_file;
	bool may_kill; /* peers with a "unix:" address that do not say it themselves */
};

struct config {
	struct config_subsystem *subsystems; /* ascending NQN */
	unsigned subsystem_count;
	struct config_port *ports; /* ascending id */
	unsigned port_count;
	struct target_limits limits;
	struct config_cluster *cluster; /* NULL: there are no other members */
};

/* The simple case: one subsystem, one namespace per spec, on every listener. */
struct config_flags {
	const char *nqn; /* NULL: TARGET_DEFAULT_NQN */
	const char *const *listens;
	unsigned listen_count; /* 0: 127.0.0.1:4420 */
	const char *const *namespaces;
	unsigned ns_count;
	const char *const *hosts;
	unsigned host_count;       /* 0: any host */
	const char *const *rights; /* HOST=RIGHT[,RIGHT]..., or any=... */
	unsigned rights_count;
};

/* 0, or -EINVAL/-errno with at least one error. *ret_config is NULL on failure. Identities that the
 * document leaves out are missing until config_identify. */
int config_load_file(const char *path, struct config **ret_config, struct config_errors *errors);
int config_load_text(const char *text, size_t len_bytes, struct config **ret_config,
		     struct config_errors *errors);
int config_from_flags(const struct config_flags *flags, struct config **ret_config,
		      struct config_errors *errors);
/* The document that the flags make: what was not given is not in it. A new reference; NULL with at
 * least one error. */
json_t *config_flags_document(const struct config_flags *flags, struct config_errors *errors);
void config_free(struct config *config);

/* Into cluster->peers.secret. 0, or -errno with an error: the file must be ours alone. */
int config_cluster_read_secret(struct config_cluster *cluster, struct config_errors *errors);

const struct config_subsystem *config_find_subsystem(const struct config *config, const char *nqn);
/* A port that answers discovery alone, under an id of its own. False: a port
 * of the configuration has that address, or there is no memory. */
bool config_add_discovery_port(struct config *config, const struct net_addr *addr);
/* One namespace that one host alone may use, offered at least on this port, optimized there.
 * 0, -EEXIST, -ENOENT or -ENOMEM. */
int config_add_private_subsystem(struct config *config, const char *nqn, const char *host_nqn,
				 const char *media_spec, const struct uuid *uuid, uint16_t port_id);
void config_remove_subsystem(struct config *config, const char *nqn);

/* As ana_state_name writes them. */
bool config_ana_state_parse(const char *text, enum ana_state *ret_state);
/* "none", "protected", "until-power-cycle", "permanent". */
const char *config_write_protect_name(enum ns_write_protect protect);
bool config_write_protect_parse(const char *text, enum ns_write_protect *ret_protect);

/*
 * Gives an identity to what has none: that of the same namespace in `known` (the configuration in
 * force or saved; NULL: none), else a random one. 0, or -EINVAL with an error for every two
 * namespaces that share an identity.
 */
int config_identify(struct config *config, const struct config *known,
		    struct config_errors *errors);
/* Takes the UUIDs out of a saved document that earlier versions derived for memory. */
void config_forget_derived(json_t *document);

/*
 * The whole document, with every default and identity spelt out, so that reading it back gives the
 * same configuration on any machine. Only the identity that memory got for this run is left out.
 * NULL when out of memory.
 */
json_t *config_to_json(const struct config *config);
/* The same with the identity of memory, for edits: they know namespaces by it. */
json_t *config_to_edit_json(const struct config *config);
/* One element of it, as it stands in the document. */
json_t *config_subsystem_to_json(const struct config_subsystem *subsystem);
json_t *config_ns_to_json(const struct config_ns *ns);
/* The same without the identity that memory got for this run. */
json_t *config_ns_to_document(const struct config_ns *ns);
json_t *config_port_to_json(const struct config *config, const struct config_port *port);
int config_load_json(const json_t *document, struct config **ret_config,
		     struct config_errors *errors);
/* What differs, one line each, for people: "+ subsystem NQN", "~ namespace NQN/3: size …". The
 * caller frees the text; empty when nothing does. NULL when out of memory. */
char *config_diff(const struct config *from, const struct config *to);
/* Rights of hosts. "all" is every right, "none" is none; *ret_problem is the word that is wrong. */
#define CONFIG_RIGHTS_ANY "any"
int config_rights_split(const char *text, uint32_t *ret_rights, char **ret_problem);
/* As a list of names; NULL when out of memory. */
json_t *config_rights_to_json(uint32_t rights);
/* "rights" of the document: an object of host, or "any", and list; NULL when out of memory. */
json_t *config_subsystem_rights_to_json(const struct config_subsystem *subsystem);

/*
 * What a document may not say because of the one in force: namespaces (known by their UUID) do not
 * shrink, and a write protection that is permanent, or lasts until the next start, is not lifted by
 * leaving it out: the administrator has to write "none". 0, or -EINVAL with at least one error.
 * `from` NULL: everything may be.
 */
int config_check_transition(const struct config *from, const struct config *to,
			    struct config_errors *errors);
/* Write protection "until-power-cycle" ends with the run of the target that began it: to be called
 * on a document before the first configuration of a run is made of it. */
void config_end_power_cycle(json_t *document);
/*
 * What a document, as it was written, adds and changes over another one with every name spelt out,
 * which is edited (see config/config_merge.c). 0, or -EINVAL with at least one error.
 */
int config_merge(json_t *document, const json_t *more, struct config_errors *errors);
/* A document saved by nvmetcli, the kernel target's tool, as one of ours; what cannot be carried
 * over is named in `notes`. NULL with at least one error. */
json_t *config_import_nvmetcli(const json_t *saved, struct config_errors *errors,
			       struct config_errors *notes);

#endif
