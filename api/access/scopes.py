"""The least scope that a token needs for each route, by the route's operationId."""

SCOPES: dict[str, str] = {
    # datasets
    "listDatasets": "read",
    "getDataset": "read",
    "sampleDataset": "read",
    "putDataset": "submit",
    "appendRows": "submit",
    "listBlocks": "read",
    "removeBlock": "admin",
    "deleteDataset": "admin",
    # jobs
    "listJobs": "read",
    "getJob": "read",
    "getJobHistory": "read",
    "watchJob": "read",
    "estimateJob": "read",
    "submitJob": "submit",
    "stopJob": "submit",
    "resumeJob": "submit",
    "cancelJob": "submit",
    "deleteJob": "admin",
    # models
    "listModels": "read",
    "getModel": "read",
    "downloadModel": "read",
    "predict": "read",
    "evaluate": "read",
    "deleteModel": "admin",
    # Open Inference Protocol
    "serverMetadata": "read",
    "modelMetadata": "read",
    "modelReady": "read",
    "modelInfer": "read",
    "modelVersionMetadata": "read",
    "modelVersionReady": "read",
    "modelVersionInfer": "read",
    # service
    "getInfo": "read",
    "getMetrics": "read",
    "getDocument": "read",
    # pages
    "showHome": "read",
    "showDataset": "read",
    "compareJobs": "read",
    "showJob": "read",
    "showModel": "read",
    "showReference": "read",
}

# Routes that need no token: login, health, static files.
OPEN = {"showLogin", "login", "logout", "serverLive", "serverReady", "getStatic"}
