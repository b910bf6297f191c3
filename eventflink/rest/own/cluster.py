"""The pages of the whole cluster: its overview, what waits, and its TaskManagers."""

from fastapi import APIRouter

from eventflink.documents.cluster import ClusterPage
from eventflink.rest.own.moments import Moment, MomentsOfRequest
from eventflink.views.pages.cluster import cluster_page

router = APIRouter()


@router.get("/cluster")
async def cluster(moments: MomentsOfRequest) -> Moment[ClusterPage]:
    """Return the overview of the cluster: whether everything is fine, what is broken, and whose it is."""
    return await moments.page(cluster_page, of_all_jobs=True)
