"""Pages for people: arrays in, the bytes of one self-contained file out. Nothing here opens an artifact."""

from typing import TYPE_CHECKING

from wordpipe.lazy import face

if TYPE_CHECKING:
    from wordpipe.pages.attention_page import AttentionView, ShownStack, ShownTokens, draw_attention
    from wordpipe.pages.drawings import bar, draw_curves, flow_lines, loss_curves, sparkline_of, trend
    from wordpipe.pages.markup import json_for_script, page_of, shown
    from wordpipe.pages.report_page import draw_report
    from wordpipe.pages.reported import ReportedArtifact, ReportedPipeline, overfit
    from wordpipe.pages.text_map import (
        Colouring,
        TextMap,
        field_colouring,
        text_map_data,
        text_map_page,
        text_map_policy,
    )
    from wordpipe.pages.word_map import (
        COLOURS,
        GRID,
        INSTALL_UMAP,
        WordMap,
        close_gaps,
        colour_order,
        group_by_direction,
        group_names,
        has_umap,
        map_data,
        nearest_on_plane,
        on_grid,
        pca_layout,
        umap_layout,
        word_map_page,
        word_map_policy,
    )
else:
    __getattr__, __dir__ = face(__name__, __file__)
