"""Compute all metrics by pure functions of arrays and tensors, without models or files."""

from src.metrics.association import (
    EmbeddingAssociation,
    SetFactors,
    compare_associations,
    eat,
    factorise,
    point_biserial,
    sc_eat,
    sc_eats,
    sc_eats_qr,
)
from src.metrics.choice_rates import (
    choice_rates,
    choice_tables,
    kendall_tau_b,
    rate_gaps,
    resampled_tables,
    stuart_tau_c,
)
from src.metrics.correlation import (
    Correlation,
    auc,
    permuted_spearman,
    spearman,
    spearman_columns,
    weighted_spearman,
)
from src.metrics.explained_variance import average_orders, fit_coefficients, permuted_eta_squared
from src.metrics.groups import (
    WelchTests,
    association_factors,
    bias_at_k,
    group_association,
    kl,
    max_skew,
    ndkl,
    normalised_entropy,
    skew,
    standardise,
    welch_tests,
)
from src.metrics.implicit import (
    cles,
    cles_mcgraw_wong,
    cohens_d,
    delta_gap,
    iat,
    iat_scores,
    iat_totals,
    partition_cles,
    partition_gaps,
    resampled_cles,
    upper_tail,
    z_score,
)
from src.metrics.inference import (
    benjamini_hochberg,
    draw_orders,
    interval,
    joint_permutation_p,
    permutation_p,
)
from src.metrics.power import detectable, models_needed
from src.metrics.reliability import disattenuate, noise_ceiling, spearman_brown
from src.metrics.retrieval import mean_outcome, merge_tile, retrieve, retrieve_screened, top_k
from src.metrics.set_differences import centre, first_shares, permuted_set_means, set_means, set_ranks
from src.metrics.similarity import cosines, normalise, pool_vectors, similarity
from src.metrics.variance_components import Components, variance_components
