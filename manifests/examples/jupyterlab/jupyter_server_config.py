"""Settings of JupyterLab behind the front door: docs/how-to/run-jupyterlab.md."""

c = get_config()  # noqa: F821

c.ServerApp.ip = "0.0.0.0"
c.ServerApp.port = 8888
c.ServerApp.port_retries = 0
c.ServerApp.open_browser = False
c.ServerApp.root_dir = "/home/user"

# The front door asks for the key or the link. A second token would be one that every instance of a pool has, or that
# visitors cannot learn. The checks of `Origin` and of the XSRF token stay on.
c.IdentityProvider.token = ""
# The front door drops a visitor's own X-Forwarded-Proto. With https, cookies are then Secure.
c.ServerApp.trust_xheaders = True

# A server that ends is started again by Kubernetes, without its kernels.
c.ServerApp.quit_button = False
# The trash would be saved with the home.
c.FileContentsManager.delete_to_trash = False
# The workload reaches no network, so it finds no extensions. overrides.json does the same for news and new versions.
c.LabApp.extension_manager = "readonly"
