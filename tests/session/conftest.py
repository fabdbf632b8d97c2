from workplaces import draw_picture, encoded, own_cache, run, workplace

__all__ = ["draw_picture", "encoded", "own_cache", "run", "workplace"]
