/* What is known of a layer's other graphs. A convolution alone, with a bias, with a scale, with a residual: cuDNN has the same kernels behind each, under
 * engine numbers of the graph's own. A plan that won for one of them is worth a try for the others. */
#include "common/cudnn/cudnn_api.h"

#ifdef HAVE_CUDNN
#include <stdlib.h>

bool engines_alike(const engine_facts *a, const engine_facts *b) {
  if (!a->usable || !b->usable || a->notes != b->notes || a->behavior != b->behavior || a->knobs == 0 || a->knobs != b->knobs) return false;
  for (int i = 0; i < a->knobs; i++) {
    const knob_range *x = &a->knob[i], *y = &b->knob[i];
    if (x->type != y->type || x->least != y->least || x->most != y->most || x->stride != y->stride) return false;
  }
  return true;
}

int kin_add(const cudnn_graph *from, const cudnn_config *config, const cudnn_graph *graphs, int graph_count, proposal *list, int count, int room) {
  const engine_facts facts = engine_ask(from, config->engine);
  for (int g = 0; g < graph_count; g++)
    for (int engine = 0; engine < graphs[g].engines && count < room; engine++) {
      const engine_facts other = engine_ask(&graphs[g], engine);
      if (graphs[g].layout != from->layout || !engines_alike(&facts, &other)) continue;
      cudnn_config same = *config;
      same.bias = graphs[g].bias, same.engine = engine;
      bool known = false;
      for (int i = 0; i < count && !known; i++) known = list[i].graph == &graphs[g] && config_equal(&list[i].config, &same);
      if (!known) list[count++] = (proposal){&graphs[g], same};
    }
  return count;
}

/* The plan of that rank of one graph's winners. */
static int add_winner(const plan_search *s, const cudnn_kin *kin, int rank, const cudnn_graph *graphs, int graph_count, proposal *list, int count, int room) {
  cudnn_task task = *s->bench->task;
  cudnn_config config;
  cudnn_graph from;
  char error[CUDNN_ERROR];
  if (cudnn_graph_parse(&task, kin->graph) || config_parse(&config, task.layout, kin->winners.tag[rank])) return count;
  task.bias = config.bias;
  if (cudnn_graph_make(&from, &task, config.layout, s->bench->handle, graphs[0].device, error, sizeof error) == 0)
    count = kin_add(&from, &config, graphs, graph_count, list, count, room);
  cudnn_graph_free(&from);
  return count;
}

int kin_list(const plan_search *s, const cudnn_graph *graphs, int graph_count, proposal *list, int room) {
  enum { KIN = 16 };
  const cudnn_options *o = &s->options;
  cudnn_kin *kin = malloc(KIN * sizeof *kin);
  int kins = 0, count = 0;
  for (int i = 0; i < 2 && kin && o->gpu; i++)
    if (o->winners[i]) kins += cudnn_winners_kin(o->winners[i], s->bench->task, o->gpu, cudnn_version(), o->workspace_limit, kin + kins, KIN - kins);
  for (int rank = 0; rank < CUDNN_BEST; rank++)
    for (int k = 0; k < kins; k++)
      if (rank < kin[k].winners.count && kin[k].winners.us[rank] <= SEARCH_GIVE_UP * kin[k].winners.us[0])
        count = add_winner(s, &kin[k], rank, graphs, graph_count, list, count, room);
  free(kin);
  return count;
}
#endif
